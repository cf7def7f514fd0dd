//! The variables that the process manager has set.
//!
//! `PMI_FD` is the number of an inherited socket. Without it, `PMI_PORT` is an address to connect
//! to. Without both, the process was started by hand and is rank 0 of 1.

use crate::error::Error;

/// Where the process manager is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ServerAddress {
    /// At an inherited descriptor.
    Descriptor(i32),
    /// At `host:port`.
    Port {
        address: String,
        /// With an id, the server sends rank and size. Without it, the environment has them.
        id: Option<u32>,
    },
    /// There is no process manager.
    Missing,
}

/// The values of the variables.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Environment {
    pub(crate) server: ServerAddress,
    pub(crate) rank: u32,
    pub(crate) size: u32,
    pub(crate) is_spawned: bool,
    /// The name of the job. Some launchers require it in the first request of PMI-2.
    pub(crate) job: Option<String>,
}

impl Environment {
    /// Reads variables by `lookup`.
    pub(crate) fn read(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let id = number(&lookup, "PMI_ID")?;
        let server = if let Some(fd) = number(&lookup, "PMI_FD")? {
            ServerAddress::Descriptor(fd)
        } else if let Some(address) = lookup("PMI_PORT") {
            ServerAddress::Port { address, id }
        } else {
            ServerAddress::Missing
        };
        Ok(Self {
            server,
            // Old launchers give the rank only as the id.
            rank: number(&lookup, "PMI_RANK")?.or(id).unwrap_or(0),
            size: number(&lookup, "PMI_SIZE")?.unwrap_or(1),
            is_spawned: number::<i64>(&lookup, "PMI_SPAWNED")?.is_some_and(|value| value != 0),
            job: lookup("PMI_JOBID"),
        })
    }
}

fn number<T: std::str::FromStr>(
    lookup: impl Fn(&str) -> Option<String>,
    name: &'static str,
) -> Result<Option<T>, Error> {
    let Some(value) = lookup(name) else { return Ok(None) };
    match value.trim().parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(Error::Variable { name, value }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Environment, Error> {
        Environment::read(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
        })
    }

    #[test]
    fn an_inherited_descriptor_comes_before_a_port() {
        let found = read(&[
            ("PMI_FD", "7"),
            ("PMI_PORT", "h:1"),
            ("PMI_RANK", "2"),
            ("PMI_SIZE", "3"),
            ("PMI_SPAWNED", "1"),
        ])
        .unwrap();
        assert_eq!(found.server, ServerAddress::Descriptor(7));
        assert_eq!((found.rank, found.size, found.is_spawned), (2, 3, true));
    }

    #[test]
    fn a_port_may_come_with_an_id_or_without() {
        let found = read(&[("PMI_PORT", "h:1"), ("PMI_ID", "4")]).unwrap();
        assert_eq!(found.server, ServerAddress::Port { address: "h:1".into(), id: Some(4) });
        let found = read(&[("PMI_PORT", "h:1"), ("PMI_RANK", "2"), ("PMI_SIZE", "3")]).unwrap();
        assert_eq!(found.server, ServerAddress::Port { address: "h:1".into(), id: None });
        assert_eq!((found.rank, found.size), (2, 3));
    }

    #[test]
    fn a_process_started_by_hand_is_rank_0_of_1() {
        let found = read(&[]).unwrap();
        assert_eq!((found.server, found.rank, found.size), (ServerAddress::Missing, 0, 1));
        assert!(!found.is_spawned);
    }

    #[test]
    fn a_variable_that_is_no_number_is_an_error_and_names_itself() {
        for name in ["PMI_FD", "PMI_RANK", "PMI_SIZE", "PMI_ID"] {
            let error = read(&[(name, "x")]).unwrap_err();
            assert!(error.to_string().starts_with(name), "{error}");
        }
    }
}
