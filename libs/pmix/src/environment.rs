//! The variables of the environment by which a client finds its server.

/// The facts on which the variables of one rank depend.
#[derive(Debug, Clone, Copy)]
pub struct Settings<'a> {
    /// The namespace of the rank's job.
    pub namespace: &'a str,
    pub rank: u32,
    /// The namespace of the server. It must not have a dot or a semicolon.
    pub server: &'a str,
    /// The port on which the server listens on the loopback interface.
    pub port: u16,
    /// The name of the host in the job information.
    pub hostname: &'a str,
    /// The directory for temporary files.
    pub directory: &'a str,
}

/// The variables of a rank. Their order does not matter.
///
/// Each `PMIX_SERVER_URI…` offers an encoding. Clients of PMIx 4 to 6 use 41 or 4, those of PMIx 3 use 3, and those of
/// PMIx 2 use 21 or 2. With the variable `JSM_JSRUN_PORT`, Open MPI 4 does not treat the process as a singleton.
pub fn variables(settings: &Settings<'_>) -> Vec<(&'static str, String)> {
    let Settings { server, port, directory, .. } = settings;
    let uri = format!("{server}.0;tcp4://127.0.0.1:{port}");
    let mut variables: Vec<_> = URIS.iter().map(|name| (*name, uri.clone())).collect();
    variables.extend([
        ("PMIX_NAMESPACE", settings.namespace.to_owned()),
        ("PMIX_RANK", settings.rank.to_string()),
        ("PMIX_SECURITY_MODE", "native".to_owned()),
        ("PMIX_BFROP_BUFFER_TYPE", "PMIX_BFROP_BUFFER_NON_DESC".to_owned()),
        ("PMIX_GDS_MODULE", "hash".to_owned()),
        ("PMIX_SERVER_TMPDIR", (*directory).to_owned()),
        ("PMIX_SYSTEM_TMPDIR", (*directory).to_owned()),
        ("PMIX_HOSTNAME", settings.hostname.to_owned()),
        ("PMIX_VERSION", "4.2.2".to_owned()),
        ("JSM_JSRUN_PORT", "1".to_owned()),
    ]);
    variables
}

const URIS: [&str; 5] = [
    "PMIX_SERVER_URI41",
    "PMIX_SERVER_URI4",
    "PMIX_SERVER_URI3",
    "PMIX_SERVER_URI21",
    "PMIX_SERVER_URI2",
];
