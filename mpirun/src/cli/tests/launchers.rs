//! Options and variables of other launchers.

use mpd_wire::job::Binding;

use super::*;

fn remarks(variables: &[(&str, &str)], line: &str) -> (Run, Vec<String>) {
    let mut c = caller(&words(line));
    c.environment.extend(variables.iter().map(|(name, value)| variable(name, value)));
    let mut run = run_by(&c);
    let remarks = std::mem::take(&mut run.remarks);
    (run, remarks)
}

#[test]
fn the_depth_of_pals_does_not_open_the_debugger() {
    let text = problem("-d 2 a");
    assert!(text.starts_with("-d 2 has two meanings: here -d is the debugger"), "{text}");
    let bound = placement("--depth 2 a");
    assert_eq!(bound.cpus.lists.len(), 4, "pairs of CPUs");
    assert_eq!(placement("-dialect pals -d 2 a"), bound);
    assert!(run("-d ./2 x").debug.is_some() && run("-gdb 2 x").debug.is_some());
}

fn placement(line: &str) -> mpd_wire::job::PlacementSpec {
    spec(line).placement
}

#[test]
fn a_foreign_option_is_named_with_its_launcher_and_never_with_a_similar_option() {
    for (line, text) in [
        (
            "-xml a",
            "-xml of Open MPI 4, Open MPI 5 (PRRTE) is not available: output has no XML form",
        ),
        ("--mca a", "--mca needs a value: VALUE"),
        ("-tune f a", "-tune has several meanings: "),
        ("-dialect vax a", "-dialect vax: it must be one of"),
        ("--mca a b -skip-launch-node p", "options of different launchers: --mca (Open MPI 4"),
        (
            "-dialect hydra --mca a b p",
            "--mca is an option of Open MPI 4, Open MPI 5 (PRRTE), not of",
        ),
    ] {
        assert!(problem(line).starts_with(text), "{line}: {}", problem(line));
    }
}

#[test]
fn the_dialect_follows_from_the_name_an_option_or_another_foreign_option() {
    assert_eq!(spec("-dialect lam -c 4 a").size(), 4);
    assert_eq!(spec("-c 4 a").size(), 4, "all launchers agree");
    assert_eq!(spec("--mca a b -c 4 a").size(), 4, "only Open MPI has --mca");
    let mut c = caller(&words("-hosts b,c, -l -n 2 a"));
    c.name = "mpiexec.hydra".into();
    let spec = run_by(&c).spec;
    let slots: Vec<_> = spec.placement.hosts.iter().map(|h| (h.name.as_str(), h.slots)).collect();
    assert_eq!(slots, [("b", Some(1)), ("c", Some(1))]);
    assert_eq!(spec.output.label.unwrap().as_bytes(), b"[%r] ");
}

#[test]
fn options_without_effect_are_reported_once() {
    let (_, said) = remarks(&[], "--display-topo -n 1 a : --display-topo b");
    assert_eq!(said, ["--display-topo has no effect: use lstopo"]);
    assert_eq!(remarks(&[], "--oversubscribe --allow-run-as-root -q a").1, [""; 0]);
}

#[test]
fn variables_of_launchers_are_options_unless_an_option_is_given() {
    let job = |variables: &[(&str, &str)], line| remarks(variables, line).0.spec;
    assert_eq!(job(&[("MPIEXEC_UNIVERSE_SIZE", "7")], "a").universe_size, Some(7));
    assert_eq!(job(&[("MPIEXEC_UNIVERSE_SIZE", "7")], "-usize 9 a").universe_size, Some(9));
    assert_eq!(job(&[("MPIEXEC_USIZE", "0")], "a").universe_size, None);
    assert_eq!(job(&[("I_MPI_PERHOST", "3")], "a").placement.per_host, Some(3));
    assert_eq!(job(&[("I_MPI_PERHOST", "all")], "a").placement.per_host, None);
    let limit = job(&[("I_MPI_JOB_TIMEOUT", "3")], "a").timeout;
    assert_eq!(limit, Some(std::time::Duration::from_secs(3)));
    assert_eq!(job(&[("MPIEXEC_TIMEOUT", "-1")], "a").timeout, None, "as for Hydra");
    for (domain, binding, width) in [
        ("core", Binding::Core, 1),
        ("socket", Binding::Socket, 1),
        ("numa:compact", Binding::Numa, 1),
        ("4", Binding::Thread, 4),
        ("omp", Binding::Thread, 2),
        ("node", Binding::None, 1),
    ] {
        let variables = [("I_MPI_PIN_DOMAIN", domain), ("OMP_NUM_THREADS", "2")];
        let placed = job(&variables, "a").placement;
        assert_eq!((placed.binding, placed.width), (binding, width), "{domain}");
    }
    let off = [("I_MPI_PIN", "off"), ("I_MPI_PIN_DOMAIN", "core")];
    assert_eq!(job(&off, "a").placement.binding, Binding::None);
    assert_eq!(job(&[("HYDRA_ENV", "none")], "a").environments[0].len(), 1);
    assert_eq!(job(&[("HYDRA_ENV", "none")], "-genvall a").environments[0].len(), 4);
    let (run, _) = remarks(&[("HYDRA_LAUNCHER", "lsf")], "-hosts b a");
    assert_eq!(run.demand.launcher.name.as_deref(), Some("blaunch"));
}

#[test]
fn variables_that_cannot_be_obeyed_are_reported_in_a_line() {
    for (name, value, reason) in [
        ("I_MPI_PIN_DOMAIN", "[55,xy]", "this value is not known here"),
        ("I_MPI_PIN_PROCESSOR_LIST", "0,x", "this value is not known here"),
        ("I_MPI_PIN_CELL", "core", "use I_MPI_PIN_DOMAIN or -bind-to"),
        ("HYDRA_LAUNCHER", "manual", "this value is not known here"),
        ("HYDRA_RMK", "pbs", "the batch system is detected"),
        ("MPIEXEC_PREFIX_STDOUT", "x", "use -prepend-pattern"),
    ] {
        let (_, said) = remarks(&[(name, value)], "a");
        assert_eq!(said, [format!("the variable {name}={value} has no effect: {reason}")]);
    }
    assert_eq!(remarks(&[("I_MPI_FABRICS", "shm"), ("HYDRA_DEBUG", "0")], "a").1, [""; 0]);
    let mut c = caller(&["a"]);
    c.environment.push(variable("MPIEXEC_UNIVERSE_SIZE", "many"));
    let error = parse(&c).unwrap_err().to_string();
    assert_eq!(
        error,
        "mpirun: the variable MPIEXEC_UNIVERSE_SIZE=many: it must be a number above 0, SYSTEM or INFINITE"
    );
}

#[test]
fn the_architecture_is_compared() {
    let own = std::env::consts::ARCH;
    assert_eq!(spec(&format!("-arch {own} a : -arch *linux* b")).size(), 2);
    let text = problem("-arch sparc* a");
    assert!(text.starts_with(&format!("-arch sparc*: the hosts are {own}; no host has")), "{text}");
}

#[test]
fn options_of_the_mpi_standard_reach_the_ranks() {
    let s = spec("-initial-errhandler MPI_ERRORS_RETURN -memory-alloc-kinds mpi,cuda:device a");
    let set = b"OMPI_MCA_mpi_initial_errhandler=mpi_errors_return".to_vec();
    assert!(s.environments[0].contains(&set));
    assert_eq!(s.memory_kinds.as_deref(), Some("mpi,cuda:device"));
    assert!(problem("-initial-errhandler x a").contains("it must be mpi_errors_are_fatal"));
    assert!(problem("-memory-alloc-kinds a,,b a").contains("it must be a list of kinds"));
}

#[test]
fn a_job_file_is_read_instead_of_programs() {
    let dir = tempfile::tempdir().unwrap();
    let mut c = caller(&words("-file job.toml -l"));
    c.directory = dir.path().to_owned();
    std::fs::write(
        dir.path().join("job.toml"),
        "timeout = 3\n[[program]]\ncommand = ['a', ':']\nn = 2",
    )
    .unwrap();
    let s = run_by(&c).spec;
    assert_eq!((s.size(), text(&s.argsets[0].args[0])), (2, ":"));
    assert!(s.timeout.is_some() && s.output.label.is_some());
    c.arguments.push("b".into());
    assert!(parse(&c).unwrap_err().to_string().contains("either in -configfile, in -file or on"));
    std::fs::write(dir.path().join("job.toml"), "[[program]]\ncommand = ['a']\nconfigfile = 'x'")
        .unwrap();
    c.arguments.truncate(2);
    let error = parse(&c).unwrap_err().to_string();
    assert!(error.ends_with("program 1: -configfile is for the command line only"), "{error}");
}

/// The remarks of a line in an environment, without their common beginning and end.
fn said(variables: &[(&str, &str)], line: &str) -> Vec<String> {
    remarks(variables, line).1
}

/// Removes the parameters from the environments of the ranks.
fn without_parameters(run: &mut Run) {
    let environments = &mut run.spec.environments;
    environments.iter_mut().for_each(|all| all.retain(|it| !it.starts_with(b"OMPI_MCA")));
}

/// Parameters with their values, a line of options, and a line of options that means the same without them. FILE is a host file.
const OBEYED: &[(&str, &str, &str, &str)] = &[
    ("orte_default_hostfile", "FILE", "", "-f FILE"),
    ("prte_default_hostfile", "FILE", "", "-f FILE"),
    ("orte_default_hostfile", "none", "", ""),
    ("orte_default_hostfile", "FILE", "-H b", "-H b"),
    ("orte_default_dash_host", "h1,h2:3", "", "-hosts h1:1,h2:3"),
    ("orte_set_default_slots", "4", "-f FILE", "-hosts h1:4,h2:3"),
    ("orte_set_default_slots", "4", "-hosts h1,h2,h1", "-hosts h1:1,h2:4,h1:1"),
    ("orte_set_default_slots", "sockets", "-f FILE", "-hosts h1:2,h2:3"),
    ("plm_rsh_agent", "/opt/ssh -q : rsh", "-H b", "-H b -launcher-exec '/opt/ssh -q'"),
    ("plm_rsh_agent", "ssh : rsh", "-H b", "-H b -launcher-exec ssh"),
    ("plm_ssh_agent", "my", "-launcher rsh -H b", "-launcher rsh -H b"),
    ("plm_rsh_args", "-p 2222", "-H b", "-H b -launcher-args '-p 2222'"),
    ("plm", "rsh", "-H b", "-H b -launcher ssh"),
    ("mca_base_env_list", "A=1;B=2", "", "-genv A 1 -genv B 2"),
    ("mca_base_env_list", "A=1;B=2", "-x A=3", "-x A=3 -genv B 2"),
    ("orte_abort_on_non_zero_status", "0", "", "-on-failure continue"),
    ("orte_abort_on_non_zero_status", "1", "", ""),
    ("state_base_error_non_zero_exit", "false", "", "-on-failure continue"),
    ("orte_enable_recovery", "true", "", "-on-failure continue"),
    ("rmaps_base_oversubscribe", "0", "", "-nooversubscribe"),
    ("rmaps_base_oversubscribe", "1", "", ""),
    ("rmaps_base_no_schedule_local", "1", "-H b", "-H b -nolocal"),
    ("rmaps_base_n_pernode", "2", "-H a,b", "-H a,b -ppn 2"),
    ("rmaps_base_n_pernode", "2", "-H a,b -N 1", "-H a,b -N 1"),
    ("orte_timestamp_output", "1", "", "-timestamp"),
    ("iof_base_redirect_app_stderr_to_stdout", "1", "", "-merge-stderr-to-stdout"),
    ("orte_tmpdir_base", "/scratch", "", "-tmpdir /scratch"),
    ("orte_report_bindings", "1", "", "-report-bindings"),
    ("hwloc_base_bind_to_core", "1", "", "--bind-to core"),
    ("rmaps", "seq", "-f FILE", "-f FILE --map-by seq"),
];

#[test]
fn a_parameter_of_open_mpi_is_obeyed_by_option_and_by_variable() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("hosts");
    std::fs::write(&file, "h1\nh2 slots=3\n").unwrap();
    let file = file.to_str().unwrap();
    for &(key, value, line, wanted) in OBEYED {
        let value = if value == "FILE" { file } else { value };
        let quoted = |line: &str| {
            let line = format!("-dialect openmpi4 -n 2 {} a", line.replace("FILE", file));
            let words = configfile::lines(line.as_bytes()).unwrap().remove(0).words;
            let mut c = caller(&[]);
            c.arguments = words;
            c
        };
        let mut wanted = run_by(&quoted(wanted));
        let mut by_variable = quoted(line);
        by_variable.environment.push(variable(&format!("OMPI_MCA_{key}"), value));
        let mut found = run_by(&by_variable);
        without_parameters(&mut found);
        assert_eq!(found.remarks, wanted.remarks, "OMPI_MCA_{key}={value} {line}");
        assert!(found.spec == wanted.spec, "OMPI_MCA_{key}={value} {line}");
        assert_eq!(found.demand, wanted.demand, "OMPI_MCA_{key}={value} {line}");
        let mut by_option = quoted(line);
        let option = ["--mca", key, value].map(OsString::from);
        by_option.arguments.splice(2..2, option);
        found = run_by(&by_option);
        without_parameters(&mut found);
        without_parameters(&mut wanted);
        assert!(found.spec == wanted.spec && found.demand == wanted.demand, "--mca {key} {value}");
    }
}

#[test]
fn a_parameter_of_open_mpi_that_is_not_obeyed_has_a_line() {
    for (key, value, reason) in [
        ("oob_tcp_if_include", "eth0", "mpdboot chooses the network of the daemons"),
        ("plm_rsh_num_concurrent", "8", "mpdboot --window sets how many"),
        ("orte_launch_agent", "x", "-launcher names the remote shell"),
        ("plm_base_verbose", "5", "-v prints each step"),
        ("orte_no_such_thing", "1", "this parameter of the launcher is not known here"),
        ("plm_no_such_thing", "1", "this parameter of the launcher is not known here"),
        ("routed_radix", "2", "the tree of the launch"),
        ("ras", "^slurm", "the batch system is detected"),
    ] {
        let text = format!("the variable OMPI_MCA_{key}={value} has no effect: {reason}");
        let lines = said(&[(&format!("OMPI_MCA_{key}"), value)], "a");
        assert!(lines.len() == 1 && lines[0].starts_with(&text), "{lines:?}");
        let lines = said(&[], &format!("--mca {key} {value} a"));
        let text = format!("--mca {key} {value} has no effect: {reason}");
        assert!(lines.len() == 1 && lines[0].starts_with(&text), "{lines:?}");
    }
    let quiet = [
        ("OMPI_MCA_btl", "self,tcp"),
        ("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
        ("PRTE_MCA_prte_keep_fqdn_hostnames", "t"),
        ("OMPI_MCA_orte_max_restarts", "0"),
        ("OMPI_MCA_plm_rsh_args", ""),
    ];
    assert_eq!(said(&quiet, "a"), [""; 0]);
    let inside = [("OMPI_MCA_routed_radix", "2"), ("OMPI_COMM_WORLD_RANK", "0")];
    assert_eq!(said(&inside, "a"), [""; 0], "the launcher around the job has set it");
    assert_eq!(said(&[("OMPI_MCA_routed_radix", "2")], "-dialect hydra a"), [""; 0]);
}

/// The remarks and the run of a line with these files: `.openmpi/mca-params.conf` in the home directory, and FILE.
fn with_files(home: &str, file: &str, variables: &[(&str, &str)], line: &str) -> Run {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join(".openmpi")).unwrap();
    std::fs::write(directory.path().join(".openmpi/mca-params.conf"), home).unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, file).unwrap();
    let line = line.replace("FILE", path.to_str().unwrap());
    let mut c = caller(&words(&line));
    c.environment.retain(|entry| !entry.starts_with(b"HOME="));
    c.environment.push(variable("HOME", directory.path().to_str().unwrap()));
    c.environment.extend(variables.iter().map(|(name, value)| variable(name, value)));
    run_by(&c)
}

#[test]
fn parameters_of_files_are_obeyed_or_have_a_line() {
    let home = "# words\nplm_rsh_args = -p 2222\noob_tcp_if_include = eth0\nbtl = self,tcp\n";
    let arguments = |run: &Run| run.demand.launcher.arguments.clone().unwrap_or_default();
    let run = with_files(home, "", &[], "-dialect openmpi4 -n 2 -H b a");
    assert_eq!(arguments(&run), "-p 2222");
    assert_eq!(run.remarks.len(), 1, "{:?}", run.remarks);
    assert!(run.remarks[0].contains("/.openmpi/mca-params.conf: oob_tcp_if_include = eth0 has no"));
    let by_variable = [("OMPI_MCA_plm_rsh_args", "-p 3333")];
    let run = with_files(home, "", &by_variable, "-n 2 -H b a");
    assert_eq!(arguments(&run), "-p 3333", "a variable comes before a file");
    let run = with_files(home, "", &[], "-n 2 -H b a");
    assert_eq!(arguments(&run), "", "a job without anything of Open MPI does not look for it");

    let tune = "-mca plm_rsh_args '-p 4444' -x A=1 --mca btl tcp";
    for option in ["-tune FILE", "--mca mca_base_envar_file_prefix FILE"] {
        let line = format!("-dialect openmpi4 {option} -n 2 -H b a");
        let run = with_files(home, tune, &by_variable, &line);
        assert_eq!(arguments(&run), "-p 4444", "{option}");
        let has = |entry: &[u8]| run.spec.environments[0].iter().any(|it| it == entry);
        assert!(has(b"A=1") && has(b"OMPI_MCA_btl=tcp"), "{option}");
    }
    let line = "-dialect openmpi4 -am FILE -n 2 -H b a";
    let run = with_files(home, "plm_rsh_args = -p 5555\n", &[], line);
    assert_eq!(arguments(&run), "-p 5555", "it comes before the home directory");
    let run = with_files(home, "plm_rsh_args = -p 5555\n", &by_variable, line);
    assert_eq!(arguments(&run), "-p 3333", "a variable comes before it");
    let line = "-dialect openmpi4 --mca plm_rsh_args -q -tune FILE -n 2 -H b a";
    assert_eq!(arguments(&with_files("", tune, &[], line)), "-q", "an option comes first");
}

#[test]
fn a_file_of_parameters_that_cannot_be_read_or_has_a_wrong_line_is_named() {
    assert!(
        problem("-dialect openmpi4 -tune /no/file a").contains("-tune /no/file: cannot read it")
    );
    assert!(problem("-dialect openmpi5 -am /no/file a").contains("-am /no/file: cannot read it"));
}

#[test]
fn a_complement_of_hosts_is_refused_with_several_programs_in_the_words_of_open_mpi_too() {
    for option in ["-hosts ^h1", "--host ^h1", "-H ^h1"] {
        for dialect in ["openmpi4", "openmpi5"] {
            let line = format!("-dialect {dialect} -n 1 {option} a : -n 1 b");
            assert!(problem(&line).contains("a complement holds for all programs"), "{line}");
        }
    }
}

/// The command that starts daemons in an allocation of Slurm, in the words of this line and with these variables.
fn in_slurm(variables: &[(&str, &str)], line: &str) -> (String, Vec<String>) {
    let of_slurm = [
        ("SLURM_JOB_ID", "7"),
        ("SLURM_JOB_NODELIST", "h[1-2]"),
        ("SLURM_TASKS_PER_NODE", "8(x2)"),
    ];
    let (run, remarks) = remarks(&[&of_slurm, variables].concat(), line);
    (run.demand.launcher.command(|program| program == "srun"), remarks)
}

#[test]
fn a_launcher_of_the_command_line_comes_before_variables_and_before_slurm() {
    let none: &[(&str, &str)] = &[];
    let agent = [("OMPI_MCA_plm_rsh_agent", "theirs"), ("OMPI_MCA_plm_rsh_args", "-q")];
    let hydra = [("HYDRA_LAUNCHER", "rsh"), ("HYDRA_LAUNCHER_EXEC", "/opt/theirs")];
    for (variables, line, command) in [
        (none, "a", "srun"),
        (none, "-launcher ssh a", "ssh"),
        (none, "-dialect hydra -launcher ssh a", "ssh"),
        (none, "-dialect intel -rsh ssh a", "ssh"),
        (none, "-dialect openmpi4 --mca plm_rsh_agent /opt/ours a", "/opt/ours"),
        (none, "-dialect openmpi4 --mca plm rsh a", "ssh"),
        (none, "-dialect openmpi4 --mca plm slurm --mca plm_rsh_agent x a", "srun"),
        (&agent, "-launcher ssh a", "ssh -q"),
        (&agent, "-launcher-exec /opt/ours a", "/opt/ours -q"),
        (&agent, "--mca plm_rsh_agent /opt/ours a", "/opt/ours -q"),
        (&hydra, "a", "/opt/theirs"),
        (&hydra, "-launcher ssh a", "ssh"),
        (&hydra, "-launcher-exec /opt/ours a", "/opt/ours"),
    ] {
        assert_eq!(in_slurm(variables, line), (command.to_owned(), vec![]), "{line}");
    }
    for line in ["a", "-launcher slurm a"] {
        let (command, lines) = in_slurm(&agent, line);
        assert_eq!(command, "srun", "{line}");
        assert!(lines.len() == 1 && lines[0].contains("Slurm starts the daemons"), "{lines:?}");
    }
}

#[test]
fn the_label_of_tagged_output_is_that_of_the_launcher() {
    let label = |line: &str| {
        let label = spec(line).output.label.unwrap();
        text(label.as_bytes()).to_owned()
    };
    assert_eq!(label("-dialect openmpi4 --tag-output a"), "[%w]<std%o>:");
    assert_eq!(label("-dialect openmpi5 --tag-output a"), "[%w]<std%o>: ");
    for (words, wanted) in [
        ("tag", "[%w]<std%o>: "),
        ("tag-detailed", "[%w][%h:%p]<std%o>: "),
        ("tag-fullname", "[%j,%r]<std%o>: "),
        ("rank", "[%r]<std%o>: "),
    ] {
        assert_eq!(label(&format!("-dialect openmpi5 --output {words} a")), wanted);
    }
}

#[test]
fn a_part_of_a_list_without_effect_has_a_line() {
    let display = "--display bind,allocation";
    assert_eq!(
        said(&[], &format!("{display} a")),
        [format!("{display}: 'allocation' has no effect: -dry-run shows the hosts")]
    );
    assert!(spec(&format!("{display} a")).placement.report_bindings);
    let late = "--runtime-options report-state-on-timeout";
    let lines = said(&[], &format!("{late},timeout=1:30 a"));
    assert!(lines[0].contains("'report-state-on-timeout' has no effect"), "{lines:?}");
    let limit = spec(&format!("{late},timeout=1:30 a")).timeout;
    assert_eq!(limit, Some(std::time::Duration::from_secs(90)));
    assert!(problem("--runtime-options nothing a").contains("'nothing' is not available"));
}

#[test]
fn options_of_older_versions_of_intel_mpi_are_understood() {
    let demand = |line: &str| run(line).demand.launcher.name;
    assert_eq!(demand("-r ssh -hosts b a").as_deref(), Some("ssh"));
    assert_eq!(demand("--rsh=ssh -hosts b a").as_deref(), Some("ssh"));
    assert_eq!(demand("-dialect mvapich -rsh -np 1 b ./a"), None, "MVAPICH's has no value");
    assert_eq!(spec("-tune -n 2 a").size(), 2);
    assert!(said(&[], "-dialect intel -tune -n 2 a")[0].contains("no effect without a file"));
    assert_eq!(said(&[], "-cleanup -n 2 a"), [""; 0]);
    assert!(said(&[], "-localroot -n 2 a")[0].starts_with("-localroot has no effect"));
    assert_eq!(text(&spec("-tmpdir /x a").tmpdir), "/x");
    assert_eq!(text(&remarks(&[("I_MPI_TMPDIR", "x")], "a").0.spec.tmpdir), "/work/x");
    assert!(problem("-trace a").contains("libVT.so is not in LD_LIBRARY_PATH"));
    let mut c = caller(&words("-dialect intel -check_mpi a"));
    c.environment.push(variable("LD_LIBRARY_PATH", "/opt/itac"));
    c.finds = |path, name| path == b"/opt/itac" && name == "libVTmc.so";
    assert!(run_by(&c).spec.environments[0].contains(&variable("LD_PRELOAD", "libVTmc.so")));
}

#[test]
fn a_tool_starts_the_programs_of_its_ranks() {
    let programs = |line: &[&str]| {
        let mut c = caller(line);
        c.environment.truncate(1);
        let shown = |argset: &Argset| {
            let words = std::iter::once(&argset.program).chain(&argset.args);
            let words: Vec<&str> = words.map(|word| text(word)).collect();
            format!("{} {}", argset.size, words.join(" "))
        };
        run_by(&c).spec.argsets.iter().map(shown).collect::<Vec<_>>()
    };
    let all = ["1 t -q a x", "1 s a x", "2 a x", "1 t -q b"];
    let line = ["-gtool", "t -q:0,4; s:1", "-n", "4", "a", "x", ":", "-n", "1", "b"];
    assert_eq!(programs(&line), all);
    assert_eq!(programs(&["-gtool", "t:all", "-n", "2", "a"]), ["2 t a"]);
    let subst = ["-gtool", "t %:0", "-subst", "-n", "1", "a%", "%r"];
    assert_eq!(programs(&subst), ["1 t %% a%% %r"]);
    assert!(problem("-gtool t a").contains("is not TOOL:RANKS"));
    let given = remarks(&[("I_MPI_GTOOL", "t:0")], "-n 1 a").0.spec;
    assert_eq!(text(&given.argsets[0].program), "t");
}

#[test]
fn a_program_may_have_a_name_of_lam_notation() {
    let program = |c: &Caller| text(&run_by(c).spec.argsets[0].program).to_owned();
    let mut c = caller(&words("N x"));
    c.survey = |_, hosts| Ok(surroundings(hosts));
    assert_eq!(program(&c), "x", "it is LAM's notation");
    c.finds = |_, name| name == "N";
    assert_eq!(program(&c), "N");
    assert_eq!(program(&caller(&words("-n 2 C x"))), "C");
    assert_eq!(program(&caller(&words("n0 x"))), "n0");
}

#[test]
fn hosts_that_are_not_wanted_may_be_named_with_a_caret() {
    for line in ["-hosts ^h1,h2 -n 2 a", "-host ^h1,h2 -n 2 a", "-exclude ^h1,h2 -n 2 a"] {
        assert_eq!(spec(line).placement.exclude, ["h1", "h2"], "{line}");
        assert!(spec(line).placement.hosts.is_empty() && spec(line).argsets[0].hosts.is_none());
    }
    assert_eq!(spec("-dialect openmpi4 -H ^h1 -n 2 a").placement.exclude, ["h1"]);
    assert!(problem("-host ^h1 a : b").contains("a complement holds for all programs"));
    assert_eq!(spec("-hosts b,c, -n 2 a").placement.hosts.len(), 2, "lists may end with a comma");
}

#[test]
fn ranks_are_numbered_by_host_where_the_hosts_are_full() {
    let line = |rest: &str| format!("-dialect openmpi4 --rank-by node {rest} a");
    let order = |rest: &str| spec(&line(rest)).placement.order;
    use mpd_wire::job::RankOrder::{BySlot, RoundRobin};
    assert_eq!(order("-n 2"), BySlot, "one host");
    assert_eq!(order("-H b:2,c:2 -n 4"), RoundRobin);
    assert!(problem(&line("-H b:2,c:2 -n 3")).contains("--rank-by node is not available here"));
}
