//! What parameters of Open MPI's launchers say about hosts, their slots, the start of daemons and variables of ranks. It
//! counts less than options, so it is collected until these are known.

use mpd_wire::job::Binding;

use crate::dialect::translation::words;

/// A parameter as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    /// The option or the variable, for messages.
    pub(crate) said: String,
    /// Its name without the beginning of a variable.
    pub(crate) key: String,
    pub(crate) value: String,
}

/// The slots of hosts without a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slots {
    Number(u32),
    /// As many as the host has of these parts.
    Parts(Binding),
}

/// The collected parameters. A parameter that is given twice counts the first time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Launch {
    /// The parameters of options that do not place ranks.
    pub(crate) parameters: Vec<Given>,
    /// The files of `-tune`, each list with what named it.
    pub(crate) tune_files: Vec<(&'static str, String)>,
    /// The files of `-am`, whose parameters count less than variables.
    pub(crate) files: Vec<(&'static str, String)>,
    /// Our words for hosts, unless others are named.
    pub(super) hosts: Option<Vec<String>>,
    /// The parameter that named them.
    hosts_by: Option<String>,
    pub(super) slots: Option<Slots>,
    /// The remote shell.
    pub(super) agent: Option<String>,
    /// Whether an option chose it, so that it comes before Slurm.
    pub(crate) is_agent_chosen: bool,
    /// Its further arguments.
    pub(super) arguments: Option<String>,
    /// Our launcher for the wanted component.
    pub(super) plm: Option<String>,
    pub(super) exports: Option<String>,
    pub(super) delimiter: Option<String>,
}

impl Launch {
    /// Adds what another section, or a variable, says.
    pub(super) fn join(&mut self, other: Self) {
        self.parameters.extend(other.parameters);
        self.tune_files.extend(other.tune_files);
        self.files.extend(other.files);
        if other.hosts.is_some() {
            (self.hosts, self.hosts_by) = (other.hosts, other.hosts_by);
        }
        self.slots = other.slots.or(self.slots.take());
        self.is_agent_chosen |= other.is_agent_chosen;
        self.agent = other.agent.or(self.agent.take());
        self.arguments = other.arguments.or(self.arguments.take());
        self.plm = other.plm.or(self.plm.take());
        self.exports = other.exports.or(self.exports.take());
        self.delimiter = other.delimiter.or(self.delimiter.take());
    }

    /// Our words for hosts, unless others are named, and the parameter that named them.
    pub(crate) fn hosts(&self) -> Option<(&str, &Vec<String>)> {
        self.hosts_by.as_deref().zip(self.hosts.as_ref())
    }

    /// All parameters so far are those of options.
    pub(crate) fn end_options(&mut self) {
        self.is_agent_chosen = self.agent.is_some();
    }

    /// Notes the parameter that said all this.
    pub(in crate::dialect) fn say(&mut self, said: &str) {
        if self.hosts.is_some() {
            self.hosts_by.get_or_insert_with(|| said.to_owned());
        }
    }

    /// Our words for the launcher of daemons, each an option; `in_slurm`: Slurm starts them unless something else is named.
    /// `None` if arguments of the remote shell have no use, because Slurm starts the daemons.
    pub(crate) fn launcher(&self, in_slurm: bool) -> Option<Vec<Vec<String>>> {
        let Self { agent, arguments, plm, .. } = self;
        let is_slurm = match plm {
            Some(plm) => plm == "srun",
            None => in_slurm && !self.is_agent_chosen,
        };
        let is_useless = is_slurm && (agent.is_some() || arguments.is_some());
        let mut made = Vec::new();
        if let Some(plm) = plm {
            made.push(words(&["-launcher", plm]));
        }
        if is_useless {
            return if made.is_empty() { None } else { Some(made) };
        }
        if let Some(agent) = agent {
            made.push(words(&["-launcher-exec", agent]));
        }
        if let Some(arguments) = arguments {
            made.push(words(&["-launcher-args", arguments]));
        }
        Some(made)
    }

    /// The variables to set, as NAME and VALUE; without a value if the caller's is to be passed.
    pub(crate) fn exports(&self) -> Vec<(&str, Option<&str>)> {
        let delimiter = self.delimiter.as_deref().unwrap_or(";");
        let list = self.exports.as_deref().unwrap_or_default();
        let items = list.split(delimiter).map(str::trim).filter(|item| !item.is_empty());
        let pair = |item| match str::split_once(item, '=') {
            Some((name, value)) => (name, Some(value)),
            None => (item, None),
        };
        items.map(pair).collect()
    }
}
