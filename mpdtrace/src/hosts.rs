//! Names of hosts from files and command lines, checked before they become arguments of a remote
//! shell.

use std::path::Path;

use anyhow::{Context as _, Result, bail};

/// Longest name of a host in the domain name system.
const MAX_LENGTH: usize = 253;

/// Whether `text` can be a host: nothing that a shell or `ssh` could take for something else.
pub fn is_host(text: &str) -> bool {
    text.len() <= MAX_LENGTH
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:-".contains(&b))
}

/// The hosts of a file, one per line; `#` begins a comment.
///
/// # Errors
/// When the file cannot be read or a line is no host; the error names the line.
pub fn read(path: &Path) -> Result<Vec<String>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    parse(&text).with_context(|| shown.to_string())
}

/// The hosts of such a text, none twice.
///
/// # Errors
/// As for [`read`].
pub fn parse(text: &str) -> Result<Vec<String>> {
    let mut hosts: Vec<String> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let host = line.split('#').next().unwrap_or_default().trim();
        if host.is_empty() {
            continue;
        }
        if !is_host(host) {
            bail!("line {}: '{host}' is no host name: letters, digits and . _ : - are", number + 1);
        }
        if !hosts.iter().any(|h| h == host) {
            hosts.push(host.to_owned());
        }
    }
    if hosts.is_empty() {
        bail!("no host in it");
    }
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_one_host_a_line_with_comments() {
        assert_eq!(parse("# all\nh1\n\n h2 # two\nh1\n").unwrap(), ["h1", "h2"]);
        assert!(parse("# none\n").is_err());
    }

    #[test]
    fn nothing_that_ssh_or_a_shell_could_misunderstand_is_a_host() {
        for bad in ["-oProxyCommand=x", "h;x", "$(x)", "a b", "h\u{1b}", "", ".", "u@h", "h/x"] {
            assert!(!is_host(bad), "{bad}");
        }
        for good in ["h1", "10.0.0.1", "fe80::1", "a-b_c.d"] {
            assert!(is_host(good), "{good}");
        }
        let error = parse("h1\n-x\n").unwrap_err().to_string();
        assert!(error.starts_with("line 2: '-x'"), "{error}");
    }
}
