//! Parameters of Open MPI's launchers about hosts, the start of daemons and variables.

use mpd_wire::job::Binding;

use super::launch::Slots;
use super::{Layout, parts, positive};
use crate::dialect::language::Facts;
use crate::dialect::translation::{Translation, words};

/// The parameters as they are written.
impl Layout {
    /// The slots of hosts without a number.
    pub(crate) fn default_slot_count(&self, caller: &dyn Facts) -> Option<u32> {
        self.launch.slots.map(|slots| match slots {
            Slots::Number(number) => number,
            Slots::Parts(part) => parts(part, caller),
        })
    }

    /// `orte_default_hostfile`.
    pub(in crate::dialect) fn default_file(&mut self, file: &str) -> Translation {
        if file != "none" {
            self.default_hosts(words(&["-f", file]));
        }
        Ok(Vec::new())
    }

    /// Hosts that count if no others are named, in our words.
    pub(in crate::dialect) fn default_hosts(&mut self, hosts: Vec<String>) {
        self.launch.hosts.get_or_insert(hosts);
    }

    /// `orte_set_default_slots`.
    pub(in crate::dialect) fn default_slots(&mut self, text: &str) -> Translation {
        let slots = match text.to_ascii_lowercase().as_str() {
            "cores" => Slots::Parts(Binding::Core),
            "sockets" | "packages" => Slots::Parts(Binding::Socket),
            "numas" => Slots::Parts(Binding::Numa),
            "hwthreads" => Slots::Parts(Binding::Thread),
            number => Slots::Number(positive(number)?),
        };
        self.launch.slots.get_or_insert(slots);
        Ok(Vec::new())
    }

    /// `plm_rsh_agent`.
    pub(in crate::dialect) fn remote_agent(&mut self, command: &str) {
        self.launch.agent.get_or_insert(command.to_owned());
    }

    /// `plm_rsh_args`.
    pub(in crate::dialect) fn remote_arguments(&mut self, arguments: &str) -> Translation {
        self.launch.arguments.get_or_insert(arguments.to_owned());
        Ok(Vec::new())
    }

    /// `plm`: the component that starts the daemons, or the excluded ones.
    pub(in crate::dialect) fn plm(&mut self, list: &str) -> Vec<String> {
        let (is_excluded, names) = match list.strip_prefix('^') {
            Some(names) => (true, names),
            None => (false, list),
        };
        let has = |name: &str| names.split(',').any(|word| word == name);
        let launcher = match is_excluded {
            true if has("slurm") => Some("ssh"),
            false if has("rsh") || has("ssh") => Some("ssh"),
            false if has("slurm") => Some("srun"),
            _ => None,
        };
        match launcher {
            Some(launcher) => {
                self.launch.plm.get_or_insert(launcher.to_owned());
            }
            None => self.note("it has no effect: the batch system is detected; see -launcher"),
        }
        Vec::new()
    }

    /// `-tune`.
    pub(in crate::dialect) fn tune(&mut self, files: &str) -> Translation {
        self.launch.tune_files.push(("-tune", files.to_owned()));
        Ok(Vec::new())
    }

    /// `-am`. The MPI library reads the files too.
    pub(in crate::dialect) fn aggregate(&mut self, files: &str) -> Translation {
        self.launch.files.push(("-am", files.to_owned()));
        Ok(Vec::new())
    }

    /// `mca_base_env_list`.
    pub(in crate::dialect) fn export(&mut self, list: &str) -> Translation {
        self.launch.exports.get_or_insert(list.to_owned());
        Ok(Vec::new())
    }

    /// `mca_base_env_list_delimiter`.
    pub(in crate::dialect) fn delimiter(&mut self, text: &str) -> Translation {
        self.launch.delimiter.get_or_insert(text.to_owned());
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_variables_has_its_own_delimiter() {
        let mut layout = Layout::default();
        layout.export("A=1;B;C=x=y; ").unwrap();
        let all = [("A", Some("1")), ("B", None), ("C", Some("x=y"))];
        assert_eq!(layout.launch.exports(), all);
        layout.delimiter(",").unwrap();
        assert_eq!(layout.launch.exports(), [("A", Some("1;B;C=x=y;"))]);
    }

    #[test]
    fn arguments_of_a_remote_shell_are_not_given_to_slurm() {
        let mut layout = Layout::default();
        layout.remote_arguments("-p 2222").unwrap();
        let args = words(&["-launcher-args", "-p 2222"]);
        assert_eq!(layout.launch.launcher(false), Some(vec![args.clone()]));
        assert_eq!(layout.launch.launcher(true), None);
        layout.plm("^slurm");
        assert_eq!(layout.launch.launcher(true), Some(vec![words(&["-launcher", "ssh"]), args]));
    }
}
