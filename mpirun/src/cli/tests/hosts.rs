//! The placement options of the command line.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use mpd_wire::job::{Binding, HostChoice, PlacementSpec, RankOrder, SpawnPolicy};

use super::*;
use crate::dryrun::Answer;

fn placement(line: &str) -> PlacementSpec {
    spec(line).placement
}

/// Hosts in the form of a list.
fn written(hosts: &[HostChoice]) -> String {
    let word = |host: &HostChoice| match host.slots {
        Some(slots) => format!("{}:{slots}", host.name),
        None => host.name.clone(),
    };
    hosts.iter().map(word).collect::<Vec<_>>().join(",")
}

fn hosts(line: &str) -> String {
    written(&placement(line).hosts)
}

/// Parses `line`, where FILE is a host file with these `contents`.
fn with_file(line: &str, contents: &str) -> Result<String, String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(contents.as_bytes()).unwrap();
    let path = file.path().to_str().unwrap();
    match parse(&caller(&words(&line.replace("FILE", path)))) {
        Ok(Request::Run(run)) => Ok(written(&run.spec.placement.hosts)),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.to_string().replace(path, "FILE")),
    }
}

#[test]
fn without_a_request_every_member_is_used() {
    for line in ["a", "-hosts all a", "-gn 2 : a"] {
        assert_eq!(placement(line), PlacementSpec::default(), "{line}");
    }
    assert_eq!(argset("a").hosts, None);
}

#[test]
fn hosts_are_listed_with_slots_and_ranges() {
    assert_eq!(hosts("-hosts a:4,b[1-3],[fe80::1]:2 p"), "a:4,b1,b2,b3,fe80::1:2");
    assert_eq!(hosts("--hosts=c,a,c p"), "c,a,c", "order and repetitions are kept");
    assert_eq!(hosts("p : -hosts a q"), "a", "in any section");
    assert_eq!(problem("-hosts a -hosts b p"), "-hosts a and -hosts b contradict each other");
    for (line, text) in [
        ("-hosts a,,b p", "there is a comma with no host beside it"),
        ("-hosts a:0 p", "'a:0' is not a number of CPUs"),
        ("-hosts a:x p", "'a:x' is not a number of CPUs"),
        ("-hosts -x p", "'-x' is not the name of a host"),
        ("-hosts c[3-1] p", "'c[3-1]' has an invalid range"),
        ("-host c[1-16385] p", "more than 16384 hosts"),
    ] {
        assert!(problem(line).contains(text), "{line}: {}", problem(line));
    }
    assert_eq!(problem_of(&["-hosts", "", "p"]), "-hosts \"\": the value is empty");
}

#[test]
fn a_program_may_have_hosts_of_its_own() {
    let s = spec("-host a -n 1 p : -n 3 q : -H b:2,c r : -host all t");
    let own: Vec<_> = s.argsets.iter().map(|a| a.hosts.as_deref().map(written)).collect();
    assert_eq!(own, [Some("a".into()), None, Some("b:2,c".into()), Some(String::new())]);
    assert!(s.placement.hosts.is_empty());
    let s = spec("-ghost x : p : -host a q");
    let own: Vec<_> = s.argsets.iter().map(|a| a.hosts.as_deref().map(written)).collect();
    assert_eq!(own, [Some("x".into()), Some("a".into())]);
    assert_eq!(
        problem("-host a : p"),
        "-host a has no program after it; for all programs it is -ghost"
    );
}

#[test]
fn a_host_file_may_have_the_form_of_any_launcher() {
    let text = "# ours\na\nb:2\nc slots=4\n\nd[1-2]:1 ifhn=d[1-2]-ib user=me port=22 # more\na\n";
    for option in ["-f", "-machinefile", "--hostfile"] {
        let read = with_file(&format!("{option} FILE p"), text);
        assert_eq!(read.unwrap(), "a,b:2,c:4,d1:1,d2:1,a");
    }
    for (contents, expected) in [
        ("", "mpirun: -f FILE: there is no host in the file"),
        ("a\nb cpus=3", "mpirun: -f FILE: line 2: 'cpus=3' follows the host: only slots=N,"),
        ("a:0", "mpirun: -f FILE: line 1: 'a:0' is not a number of CPUs"),
    ] {
        let error = with_file("-f FILE p", contents).unwrap_err();
        assert!(error.starts_with(expected), "{contents:?}: {error}");
    }
    assert_eq!(with_file("-f FILE -hosts a,b p", "a\nb").unwrap(), "a,b", "the same twice");
    let error = with_file("-f FILE -hosts a p", "b").unwrap_err();
    assert!(error.contains("-f FILE and -hosts a contradict each other"), "{error}");
    assert_eq!(
        problem("-f /no/such p"),
        "-f /no/such: cannot read the file: No such file or directory"
    );
}

#[test]
fn hosts_can_be_excluded() {
    assert_eq!(placement("-exclude ^h3 --exclude h[5-6],h3 p").exclude, ["h3", "h5", "h6", "h3"]);
    assert_eq!(placement("-nolocal p").exclude, ["localhost"]);
    assert!(problem("-exclude ^ p").contains("there is a comma with no host beside it"));
    assert!(problem("-exclude a,^b p").contains("'^b' is not the name of a host"));
}

#[test]
fn ranks_are_distributed_by_the_option() {
    for option in ["-ppn", "-perhost", "-N", "--npernode"] {
        assert_eq!(placement(&format!("{option} 2 p")).per_host, Some(2));
    }
    assert_eq!(placement("-rr p").order, RankOrder::RoundRobin);
    assert_eq!(placement("-g 2 p").group, Some(2));
    assert!(!placement("-1 p").here_first);
    assert!(placement("-print-rank-map p").print_rank_map);
    assert_eq!(problem("-ppn 0 p"), "-ppn 0: the number of processes must be at least 1");
    assert_eq!(problem("-g x p"), "-g x: \"x\" is not a number of processes");
    assert_eq!(problem("-ppn 2 -N 3 p"), "-ppn 2 and -N 3 contradict each other");
    assert_eq!(
        problem("-ppn 3 -g 2 p"),
        "3 processes on each host cannot be groups of 2: make it a multiple"
    );
}

#[test]
fn ranks_can_be_bound() {
    assert_eq!(placement("-bind-to core p").binding, Binding::Core);
    assert_eq!(placement("--binding=numa p").binding, Binding::Numa);
    assert_eq!(placement("-bind-to none p").binding, Binding::None);
    let wide = placement("-bind-to hwthread:3 p");
    assert_eq!((wide.binding, wide.width), (Binding::Thread, 3));
    for bad in ["core:0", "slots:2", "core:99999"] {
        let said = problem(&format!("-bind-to {bad} p"));
        assert!(said.starts_with(&format!("-bind-to {bad}: it must be none, core,")), "{said}");
    }
}

#[test]
fn ranks_can_use_parts_of_a_host_in_turn() {
    let spread = |line: &str| placement(line).spread.map(|s| (s.over, s.block));
    assert_eq!(spread("-map-by socket -bind-to core p"), Some((Binding::Socket, Some(1))));
    assert_eq!(spread("-map-by numa:block=2 -bind-to core p"), Some((Binding::Numa, Some(2))));
    assert_eq!(spread("-map-by slot p"), None);
    assert_eq!(placement("-map-by node p").order, RankOrder::RoundRobin);
    assert!(problem("-map-by slots p").starts_with("-map-by slots: it must be node, slot,"));
    assert_eq!(problem("-map-by board p"), "-map-by board: the policy 'board' is not available");
    assert!(problem("-map-by socket -bind-to slots p").contains("does not fit -bind-to slots"));
}

#[test]
fn spawned_processes_have_a_limit_a_depth_and_a_step_of_niceness() {
    let options = |line: &str| spec(line).spawn;
    assert_eq!((options("p").limit, options("p").nice_step), (None, 0));
    assert_eq!(options("-spawn-limit 2 p").limit, Some(2));
    assert_eq!(options("-spawn-nice -3 p").nice_step, -3);
    assert_eq!(options("p").longest_chain(), 100);
    assert_eq!(options("-spawn-depth 500 p").longest_chain(), 500);
    assert!(problem("-spawn-limit 0 p").contains("must be at least 1"));
    assert!(problem("-spawn-nice 20 p").contains("it must be a number, -20 to 19"));
}

#[test]
fn ranks_are_placed_by_load_and_speed() {
    let slots = |line: &str| {
        let hosts = placement(line).hosts.into_iter();
        hosts.map(|host| (host.name, host.slots.unwrap_or(0))).collect::<Vec<_>>()
    };
    let pairs = |list: &[(&str, u32)]| {
        list.iter().map(|&(name, slots)| (name.to_owned(), slots)).collect::<Vec<_>>()
    };
    assert_eq!(slots("-placement load -n 20 p"), pairs(&[("h0", 10), ("h2", 10)]), "h1 is busy");
    assert_eq!(slots("-placement slots -n 20 p"), []);
    assert!(problem("-placement fast p").contains("it must be 'slots' or 'load'"));
    for other in ["-ppn 2", "-rr", "-g 2", "-pick N"] {
        let said = problem(&format!("-hosts h1,h2 -placement load {other} -n 2 p"));
        assert!(said.contains("contradict each other"), "{other}: {said}");
    }
}

#[test]
fn the_spawn_policy_is_one_of_three_words() {
    let policy = |line: &str| spec(line).spawn.policy;
    assert_eq!(policy("p"), SpawnPolicy::RoundRobin);
    assert_eq!(policy("-spawn-policy rr p"), SpawnPolicy::RoundRobin);
    assert_eq!(policy("--spawn-policy=load p"), SpawnPolicy::Load);
    assert_eq!(policy("p : -spawn-policy pack q"), SpawnPolicy::Pack);
    assert_eq!(
        problem("-spawn-policy fill p"),
        "-spawn-policy fill: it must be 'rr', 'load' or 'pack'"
    );
    assert!(problem("-spawn-policy rr -spawn-policy load p").contains("contradict each other"));
}

#[test]
fn a_dry_run_shows_the_request() {
    let line = "-dry-run -hosts a:4,b,[fe80::1]:2 -exclude c,d -ppn 4 -rr -g 2 -1 -bind-to core \
                -spawn-policy load -print-rank-map p : -host e q : -host all r";
    let Ok(Request::DryRun(Answer { text, .. })) = parse(&caller(&words(line))) else { panic!() };
    for line in [
        "hosts: a:4 b [fe80::1]:2",
        "excluded hosts: c d",
        "processes per host: 4",
        "order: each host in turn",
        "group size: 2",
        "first host: the next in the ring",
        "spawned processes: load",
        "bound to: core",
        "print rank map: yes",
        "  hosts: e",
        "  hosts: all",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
}

#[test]
fn one_program_without_a_number_fills_all_hosts_of_the_ring() {
    let size = |line: &str| spec(line).size();
    assert_eq!(size("-hosts all -ppn 2 ./a"), 8, "the ring has four hosts");
    assert_eq!(size("-hosts all -ppn 2 -n 3 ./a"), 3);
    assert_eq!(size("-hosts all ./a"), 1);
    assert_eq!(size("-host all -ppn 2 ./a"), 8);
    assert_eq!(size("-hosts all -ppn 2 ./a : ./b"), 2);
    let error = parse(&caller(&words("-hosts all -ppn 1 -exclude b ./a"))).unwrap_err();
    assert!(error.to_string().contains("use -n"), "{error}");
}

#[test]
fn a_program_without_a_number_fills_the_named_hosts() {
    for (line, size) in [
        ("./a", 1),
        ("-hosts a,b ./a", 2),
        ("-hosts a:2,b:2 ./a", 4),
        ("-hosts a:3,b ./a", 4),
        ("-hosts a,a ./a", 2),
        ("-hosts a,b -ppn 3 ./a", 6),
        ("-hosts a:8,b -ppn 3 ./a", 6),
        ("-hosts a,a -ppn 3 ./a", 3),
        ("-ppn 3 ./a", 3),
        ("-host b:2,c ./a", 3),
        ("-hosts a,b,c -host b:2 ./a", 2),
        ("-ghost a,b -ppn 2 : ./a", 4),
        ("-hosts a:2,b:2,c -exclude b ./a", 3),
        ("-hosts a -exclude a ./a", 1),
        ("-hosts a:2,b:2 -n 1 ./a", 1),
        ("-gn 3 -hosts a,b : ./a", 3),
        ("-hosts a:2,b:2 -soft 1:3 ./a", 3),
        ("-hosts a:2,b:2 ./a : ./b", 2),
        ("-ppn 4 ./a : -n 2 ./b", 3),
    ] {
        assert_eq!(spec(line).size(), size, "{line}");
    }
    assert!(problem("-hosts a,b -ppn 1048576 ./a").contains("2097152 processes are more"));
}

#[test]
fn a_host_file_determines_the_number_as_a_list_does() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"a:2\nb slots=3\n# c\nd\n").unwrap();
    let path = file.path().to_str().unwrap();
    assert_eq!(spec(&format!("-f {path} ./a")).size(), 6);
    assert_eq!(spec(&format!("-f {path} -ppn 4 ./a")).size(), 12);
}

#[test]
fn mpdexec_is_a_command_once_on_every_host() {
    let mut everywhere = caller(&words("-l uptime -p"));
    everywhere.name = "mpdexec".into();
    let short = run_by(&everywhere);
    let meant = words("-hosts all -ppn 1 -m -prepend-pattern")
        .into_iter()
        .chain(["%h: "])
        .chain(words("-on-failure highest -l uptime -p"));
    let long = run_by(&caller(&meant.collect::<Vec<_>>()));
    assert_eq!((short.spec, short.exits), (long.spec, long.exits));
    everywhere.arguments.clear();
    assert!(
        parse(&everywhere).unwrap_err().to_string().starts_with("mpdexec: there is no program")
    );
}

/// The names of all hosts in a private ring for this job.
fn demanded(line: &str) -> Vec<String> {
    run(line).demand.hosts.into_iter().map(|entry| entry.host).collect()
}

#[test]
fn a_private_ring_has_all_named_hosts_except_the_excluded_ones() {
    assert_eq!(demanded("-hosts a,b -n 1 p : -host c q : -host a r"), ["a", "b", "c", "a"]);
    assert_eq!(demanded("-hosts a,b -exclude ^b p"), ["a"]);
    assert_eq!(demanded("-ghost a : p : -host b q"), ["a", "b"]);
    assert!(demanded("-hosts all p").is_empty() && demanded("p").is_empty());
}

#[test]
fn a_private_ring_has_no_account_of_another_name_from_a_file_that_others_can_write() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"h1\nh2 user=bo\n").unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    let line = |options: &str| format!("{options} -f {path} p");
    // The file is in the directory of all users.
    fs::set_permissions(&path, Permissions::from_mode(0o602)).unwrap();
    let refusal = run(&line("")).demand.refusal.unwrap();
    assert!(refusal.starts_with(&format!("{path} can be written by every user")), "{refusal}");
    assert!(refusal.ends_with("give --allow-user h2=bo"), "{refusal}");
    assert_eq!(run(&line("-allow-user h2=bo")).demand.refusal, None);
    assert_eq!(run("-hosts h1,bo@h2 p").demand.refusal, None);
    let safe = tempfile::tempdir().unwrap();
    let path = safe.path().join("hosts");
    fs::write(&path, "h2 user=bo\n").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    assert_eq!(run(&format!("-f {} p", path.display())).demand.refusal, None);
    let wrong = problem_of(&["-allow-user", "bo", "p"]);
    assert_eq!(wrong, "-allow-user bo: it must be HOST=USER");
}

#[test]
fn daemons_are_started_by_the_launcher_of_the_option() {
    let command = |line: &str| run(line).demand.launcher.command(|_| false);
    assert_eq!(command("p"), "ssh");
    assert_eq!(command("-launcher rsh p"), "rsh");
    assert_eq!(command("-bootstrap slurm p"), "srun");
    assert_eq!(command("-launcher ssh -bootstrap-exec /opt/ssh p"), "/opt/ssh");
    assert_eq!(
        problem_of(&["-launcher", " ", "p"]),
        "-launcher \" \": it must be a command, like ssh"
    );
}

/// Parses a line in an allocation of two hosts with five slots.
fn in_batch(line: &str) -> Run {
    let mut caller = caller(&words(line));
    let variables = [("LSB_JOBID", "7"), ("LSB_MCPU_HOSTS", "a 2 b 3")];
    caller.environment.extend(variables.map(|(n, v)| variable(n, v)));
    run_by(&caller)
}

#[test]
fn without_named_hosts_the_job_uses_the_hosts_and_slots_of_the_batch_system() {
    let job = in_batch("p");
    assert_eq!((job.spec.size(), written(&job.demand.allocated).as_str()), (5, "a:2,b:3"));
    assert_eq!(job.demand.hosts.len(), 2);
    assert!(job.spec.placement.hosts.is_empty(), "a running ring may have other names");
    assert_eq!(in_batch("-n 2 p").spec.size(), 2);
    assert_eq!(in_batch("-ppn 4 p").spec.size(), 8);
    assert_eq!(in_batch("-gn 2 : p").spec.size(), 2);
    assert_eq!(in_batch("-soft 1:4 p").spec.size(), 4);
    assert_eq!(
        in_batch("p : q").spec.size(),
        2,
        "two programs without a number have one process each"
    );
    let named = in_batch("-hosts c p");
    assert_eq!((named.spec.size(), named.demand.allocated.len()), (1, 0));
}

/// A user in an allocation with two slots on each of two hosts.
fn in_allocation(line: &str) -> Caller {
    let mut caller = caller(&words(line));
    caller.environment.push(variable("MPD_ALLOC", "a3"));
    caller.environment.extend([variable("LSB_JOBID", "7"), variable("LSB_MCPU_HOSTS", "a 2 b 3")]);
    caller
}

#[test]
fn a_job_in_an_allocation_uses_its_slots_and_no_hosts_of_the_batch_system() {
    let job = run_by(&in_allocation("p"));
    assert_eq!(job.spec.size(), 4);
    assert_eq!(written(&job.spec.placement.hosts), "h1:2,h2:2");
    assert!(job.demand.hosts.is_empty() && job.demand.allocated.is_empty());
    let fewer = run_by(&in_allocation("-n 3 -hosts h2:9,h1:1 p"));
    assert_eq!(written(&fewer.spec.placement.hosts), "h2:2,h1:1");
    let one = run_by(&in_allocation("-n 1 -host h2 p : -n 1 q"));
    assert_eq!(written(one.spec.argsets[0].hosts.as_ref().unwrap()), "h2:2");
    let error = parse(&in_allocation("-n 1 -hosts h3 p")).unwrap_err().to_string();
    assert!(error.contains("h3 is not in allocation a3@h1, which has h1, h2"), "{error}");
    let mut other = caller(&words("-alloc a4 p"));
    assert!(refusal(&parse(&other)).contains("-alloc: there is no allocation a4"));
    other.environment.push(variable("MPD_ALLOC", "a5"));
    assert!(refusal(&parse(&other)).contains("-alloc: there is no allocation a4"));
}

fn refusal(result: &Result<Request, Usage>) -> String {
    result.as_ref().unwrap_err().to_string()
}

#[test]
fn a_job_waits_for_a_slot_of_each_process_unless_it_is_in_an_allocation() {
    let wait = |line: &str| format!("{:?}", run(line).wait);
    assert_eq!(wait("-n 4 p"), "None");
    assert_eq!(
        wait("-n 4 -wait p : -n 2 q"),
        "Some(Wait { count: 6, width: 1, hosts: \"\", now: false })"
    );
    assert_eq!(
        wait("-n 3 -wait -hosts a:2,b:1 p"),
        "Some(Wait { count: 3, width: 1, hosts: \"a,a,b\", now: false })"
    );
    assert_eq!(
        wait("-n 3 -wait -bind-to core:2 p"),
        "Some(Wait { count: 3, width: 2, hosts: \"\", now: false })"
    );
    assert_eq!(
        wait("-n 3 -wait -now p"),
        "Some(Wait { count: 3, width: 1, hosts: \"\", now: true })"
    );
    assert_eq!(problem_of(&["-now", "p"]), "-now needs -wait");
    assert_eq!(run_by(&in_allocation("-wait -now p")).wait, None);
    assert_eq!(problem_of(&["-wait", "-ppn", "2", "p"]), "-wait and -ppn contradict each other");
}
