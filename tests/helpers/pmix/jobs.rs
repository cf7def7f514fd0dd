//! The jobs of the server: their ranks, what these committed, and how they are started.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Child, Command, Stdio};

use pmix_proto::encoding::Encoding;
use pmix_proto::environment::{Settings, variables};
use pmix_proto::job_info::{Job, Node, Program, Rank, describe};
use pmix_proto::modex::{Modex, View};
use pmix_proto::view::Proc;

/// A program of a job.
pub(crate) struct App {
    pub(crate) size: u32,
    pub(crate) command: Vec<Vec<u8>>,
    pub(crate) environment: Vec<Vec<u8>>,
    pub(crate) directory: Option<Vec<u8>>,
}

pub(crate) struct World {
    pub(crate) job: Job,
    pub(crate) modex: Modex,
    /// Whether the rank has not ended.
    pub(crate) alive: Vec<bool>,
    pub(crate) connected: Vec<bool>,
    /// Whether the rank has connected ever.
    pub(crate) introduced: Vec<bool>,
    pub(crate) finalized: Vec<bool>,
}

impl World {
    pub(crate) fn new(
        namespace: &str,
        nodes: u32,
        before: u32,
        apps: &[App],
        parent: Option<Proc>,
        scratch: &str,
    ) -> Self {
        let size: u32 = apps.iter().map(|app| app.size).sum();
        let nodes = nodes.min(size);
        let node = |number| Node {
            name: format!("node{number}").into(),
            processes_before: before,
            is_oversubscribed: false,
        };
        let directory = |app: &App| app.directory.clone().unwrap_or_else(|| b"/".to_vec());
        let program = |app: &App| Program { size: app.size, directory: directory(app) };
        let job = Job {
            namespace: namespace.into(),
            server: b"server".to_vec(),
            universe_size: Some(size + 4),
            parent,
            directory: scratch.into(),
            nodes: (0..nodes).map(node).collect(),
            apps: apps.iter().map(program).collect(),
            ranks: (0..size).map(|rank| Rank { node: rank % nodes, ..Rank::default() }).collect(),
        };
        let all = |value| vec![value; size as usize];
        Self {
            job,
            modex: Modex::default(),
            alive: all(true),
            connected: all(false),
            introduced: all(false),
            finalized: all(false),
        }
    }

    pub(crate) fn namespace(&self) -> &str {
        str::from_utf8(&self.job.namespace).expect("a namespace of ours")
    }

    pub(crate) fn node_name(&self, rank: u32) -> &[u8] {
        let node = self.job.ranks[rank as usize].node;
        &self.job.nodes[node as usize].name
    }

    /// What the job is to a process on a node of that name.
    pub(crate) fn describe(&self, node: &[u8], encoding: Encoding) -> Vec<u8> {
        let number = self.job.nodes.iter().position(|one| one.name == node);
        let number = number.map(|number| u32::try_from(number).expect("few nodes"));
        describe(&self.job, number, encoding)
    }

    pub(crate) fn view(&self, rank: u32, asker: &[u8]) -> View {
        if self.node_name(rank) == asker { View::Local } else { View::Remote }
    }

    /// Starts all ranks, or none.
    pub(crate) fn start(&self, apps: &[App], port: u16) -> std::io::Result<Vec<Child>> {
        let mut children: Vec<Child> = Vec::new();
        let each = apps.iter().flat_map(|app| (0..app.size).map(move |_| app));
        for (rank, app) in (0..).zip(each) {
            match self.start_rank(rank, app, port) {
                Ok(child) => children.push(child),
                Err(error) => {
                    for mut child in children {
                        child.kill().and_then(|()| child.wait()).expect("a child of ours");
                    }
                    return Err(error);
                }
            }
        }
        Ok(children)
    }

    fn start_rank(&self, rank: u32, app: &App, port: u16) -> std::io::Result<Child> {
        let mut command = Command::new(OsStr::from_bytes(&app.command[0]));
        command.args(app.command[1..].iter().map(|argument| OsStr::from_bytes(argument)));
        command.stdin(Stdio::null());
        if let Some(directory) = &app.directory {
            command.current_dir(OsStr::from_bytes(directory));
        }
        for variable in &app.environment {
            if let Some(at) = variable.iter().position(|byte| *byte == b'=') {
                let (name, value) = (&variable[..at], &variable[at + 1..]);
                command.env(OsStr::from_bytes(name), OsStr::from_bytes(value));
            }
        }
        let hostname = String::from_utf8_lossy(self.node_name(rank)).into_owned();
        let settings = Settings {
            namespace: self.namespace(),
            rank,
            server: "server",
            port,
            hostname: &hostname,
            directory: str::from_utf8(&self.job.directory).expect("a path of ours"),
        };
        command.envs(variables(&settings)).spawn()
    }
}
