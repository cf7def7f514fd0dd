//! Variables and files of batch systems, and the hosts that result from them.

use std::io::Write as _;

use super::*;

fn caller(variables: &[(&str, &str)]) -> Caller {
    Caller {
        arguments: Vec::new(),
        name: "mpirun".into(),
        environment: variables.iter().map(|(n, v)| format!("{n}={v}").into_bytes()).collect(),
        directory: "/".into(),
        umask: 0o022,
        limits: Vec::new(),
        terminal: || (80, 24),
        closed: [false; 3],
        niceness: None,
        ring: crate::ring::size,
        look: crate::linked::look,
        cpus: Vec::new,
        finds: |_, _| false,
        survey: crate::surroundings::read,
        loaded: crate::surroundings::loaded,
        held: crate::slots::granted,
    }
}

/// The hosts as a line `h1:2 h2`, or the error.
fn found(variables: &[(&str, &str)]) -> Result<String, String> {
    let found = Allocation::find(&caller(variables)).map_err(|e| e.to_string())?;
    let word = |host: &HostChoice| match host.slots {
        Some(slots) => format!("{}:{slots}", host.name),
        None => host.name.clone(),
    };
    let hosts = found.map(|allocation| allocation.hosts).unwrap_or_default();
    Ok(hosts.iter().map(word).collect::<Vec<_>>().join(" "))
}

fn file(text: &str) -> (tempfile::NamedTempFile, String) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    (file, path)
}

#[test]
fn slurm_lists_nodes_and_tasks_in_compressed_form() {
    let slurm = |nodes, counts: &[(&'static str, &'static str)]| {
        found(&[&[("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", nodes)], counts].concat())
    };
    let tasks = |text| [("SLURM_TASKS_PER_NODE", text)];
    assert_eq!(
        slurm("n[001-003,7],m1", &tasks("2(x3),1,4")).unwrap(),
        "n001:2 n002:2 n003:2 n7:1 m1:4"
    );
    assert_eq!(slurm("n1", &tasks("16")).unwrap(), "n1:16");
    assert_eq!(slurm("r[1-2]n[8-9]", &tasks("1(x4)")).unwrap(), "r1n8:1 r1n9:1 r2n8:1 r2n9:1");
    assert_eq!(slurm("a,b", &[("SLURM_JOB_CPUS_PER_NODE", "8(x2)")]).unwrap(), "a:8 b:8");
    assert_eq!(slurm("a,b", &[]).unwrap(), "a b");
    for wrong in ["1", "1(x3)", "1,1,1", "x", "1(x", "1(x99999999999999999999)", "-1,2", ""] {
        let said =
            slurm("a,b", &[("SLURM_TASKS_PER_NODE", wrong), ("SLURM_JOB_CPUS_PER_NODE", "")]);
        assert_eq!(said.is_err(), !wrong.is_empty(), "{wrong}");
    }
    assert!(slurm("a;b", &[]).unwrap_err().contains("the batch system's SLURM_JOB_NODELIST: "));
}

#[test]
fn a_step_of_slurm_has_its_own_hosts_and_the_shell_of_salloc_has_those_of_the_job() {
    let job = [("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", "a,b")];
    let of = |more: &[(&'static str, &'static str)]| found(&[&job[..], more].concat());
    let step = [
        ("SLURM_TASKS_PER_NODE", "1"),
        ("SLURM_JOB_CPUS_PER_NODE", "8(x2)"),
        ("SLURM_STEP_NODELIST", "b"),
        ("SLURM_STEP_TASKS_PER_NODE", "3"),
    ];
    let with = |id: (&'static str, &'static str)| of(&[&[id], &step[..]].concat()).unwrap();
    assert_eq!(with(("SLURM_STEP_ID", "0")), "b:3");
    assert_eq!(with(("SLURM_STEPID", "17")), "b:3");
    // The shell of salloc, and the batch script.
    assert_eq!(with(("SLURM_STEP_ID", "4294967290")), "a:8 b:8");
    assert_eq!(with(("SLURM_STEP_ID", "4294967291")), "a:8 b:8");
    let foreign = [("SLURM_STEP_ID", "0"), ("SLURM_STEP_NODELIST", "of-another-job")];
    assert_eq!(of(&foreign).unwrap(), "a b");
    let bare = [("SLURM_STEP_ID", "0"), ("SLURM_STEP_NODELIST", "b")];
    assert_eq!(of(&bare).unwrap(), "b");
    let wrong = [("SLURM_STEP_ID", "0"), ("SLURM_STEP_NODELIST", "b[")];
    assert!(of(&wrong).unwrap_err().contains("the batch system's SLURM_STEP_NODELIST: "));
}

#[test]
fn a_heterogeneous_job_of_slurm_has_the_hosts_of_all_components() {
    for kind in ["HET", "PACK"] {
        let names: Vec<(String, &str)> = vec![
            ("SLURM_JOB_ID".into(), "7"),
            ("SLURM_JOB_NODELIST".into(), "a"),
            ("SLURM_TASKS_PER_NODE".into(), "2"),
            (format!("SLURM_{kind}_SIZE"), "2"),
            (format!("SLURM_JOB_NODELIST_{kind}_GROUP_0"), "a"),
            (format!("SLURM_TASKS_PER_NODE_{kind}_GROUP_0"), "2"),
            (format!("SLURM_JOB_NODELIST_{kind}_GROUP_1"), "g[1-2]"),
            (format!("SLURM_JOB_CPUS_PER_NODE_{kind}_GROUP_1"), "4(x2)"),
        ];
        let variables: Vec<(&str, &str)> =
            names.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        assert_eq!(found(&variables).unwrap(), "a:2 g1:4 g2:4", "{kind}");
        assert_eq!(found(&variables[..4]).unwrap(), "a:2", "{kind}: no list of a component");
    }
}

#[test]
fn pbs_lists_a_host_for_each_slot() {
    let (_file, path) = file("n1\nn1\nn2\n\nn1\n");
    assert_eq!(found(&[("PBS_JOBID", "1.srv"), ("PBS_NODEFILE", &path)]).unwrap(), "n1:3 n2:1");
    assert_eq!(found(&[("PBS_NODEFILE", &path)]).unwrap(), "n1:3 n2:1", "without a job id");
    let said = found(&[("PBS_JOBID", "1"), ("PBS_NODEFILE", "/nowhere/f")]).unwrap_err();
    assert_eq!(
        said,
        "mpirun: the batch system's PBS_NODEFILE: /nowhere/f: cannot read it: No such file or directory; \
         name the hosts with -hosts, or unset the variable"
    );
}

#[test]
fn oar_cobalt_and_pjm_have_files_of_nodes() {
    let (_file, path) = file("n1\nn1\nn2\n");
    for variable in ["OAR_NODEFILE", "OAR_NODE_FILE"] {
        assert_eq!(found(&[(variable, &path)]).unwrap(), "n1:2 n2:1", "{variable}");
    }
    let (_file, path) = file("n1\nn2 0x0\n\nn1\n");
    for variable in ["COBALT_NODEFILE", "PJM_O_NODEINF"] {
        assert_eq!(found(&[(variable, &path)]).unwrap(), "n1 n2", "{variable}");
    }
}

#[test]
fn lsf_lists_hosts_in_one_of_three_forms() {
    let (_file, path) = file("a\na\nb\n");
    let all = [
        ("LSB_JOBID", "5"),
        ("LSB_HOSTS", "x x y"),
        ("LSB_MCPU_HOSTS", "p 4 q 2 p 1"),
        ("LSB_DJOB_HOSTFILE", &path),
    ];
    assert_eq!(found(&all).unwrap(), "a:2 b:1");
    assert_eq!(found(&all[..3]).unwrap(), "p:5 q:2");
    assert_eq!(found(&all[..2]).unwrap(), "x:2 y:1");
    assert_eq!(found(&all[..1]).unwrap(), "");
    assert_eq!(found(&all[1..]).unwrap(), "", "no job");
    let (_file, empty) = file("\n");
    for path in [&empty, "/no/such/file"] {
        let first = [("LSB_JOBID", "5"), ("LSB_DJOB_HOSTFILE", path)];
        assert_eq!(found(&[&first[..], &all[1..3]].concat()).unwrap(), "p:5 q:2", "{path}");
        assert!(found(&first).unwrap_err().contains("LSB_DJOB_HOSTFILE: "), "{path}");
    }
    for wrong in ["p", "p q", "p 1 q", "p 0"] {
        assert!(found(&[("LSB_JOBID", "5"), ("LSB_MCPU_HOSTS", wrong)]).is_err(), "{wrong}");
    }
}

#[test]
fn grid_engine_has_a_line_for_each_queue_of_a_host() {
    let (_file, path) =
        file("n1.x.org 2 all.q@n1 UNDEFINED\nn2 1 all.q@n2 <NULL>\nn1.x.org 3 b.q\n");
    assert_eq!(found(&[("PE_HOSTFILE", &path)]).unwrap(), "n1.x.org:5 n2:1");
    let (_file, path) = file("n1 2\nn2\n");
    let said = found(&[("PE_HOSTFILE", &path)]).unwrap_err();
    assert!(said.contains("line 2 is not 'HOST SLOTS ...'"), "{said}");
}

#[test]
fn an_option_or_shell_code_is_no_host_name() {
    for bad in ["-oProxyCommand=x 1", "$(x) 1", "a;b 1", "n1 0", ""] {
        let (_file, path) = file(bad);
        assert!(found(&[("PE_HOSTFILE", &path)]).is_err(), "{bad}");
    }
}

#[test]
fn slots_are_summed_if_every_host_has_a_number() {
    let of = |list: &[(&str, Option<u32>)]| {
        let host = |&(name, slots): &(&str, _)| HostChoice::new(name.to_owned(), slots);
        Allocation { hosts: list.iter().map(host).collect() }.slots()
    };
    assert_eq!(of(&[("a", Some(2)), ("b", Some(3))]), Some(5));
    assert_eq!(of(&[("a", Some(2)), ("b", None)]), None);
}
