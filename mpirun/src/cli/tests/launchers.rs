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
        ("-am f a", "-am of Open MPI 4, Open MPI 5 (PRRTE) is not available: files of parameters"),
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
