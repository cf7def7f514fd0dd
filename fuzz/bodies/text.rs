//! Texts of files.

use mpd_channel::{KeyText, keytext};
use mpd_placement::hosts;
use mpd_wire::job::MAX_HOSTS;

/// A key file that can be read is written so that it reads the same.
pub(crate) fn key_file(data: &[u8]) {
    let word = std::str::from_utf8(data).ok().and_then(keytext::secret_word);
    assert!(word.is_none_or(|word| !word.is_empty() && word.trim() == word));
    if let Ok(keys) = KeyText::parse(data.to_vec()) {
        let text = keys.to_text();
        let again = KeyText::parse(text.as_bytes().to_vec()).expect("what was written can be read");
        assert_eq!(*again.to_text(), *text);
        assert_eq!(again.ring(), keys.ring());
    }
}

/// Whatever host file or list is taken, its words can be neither options nor shell code, and there are
/// not too many of them.
pub(crate) fn host_file(data: &[u8]) {
    let list = std::str::from_utf8(data).ok().map(hosts::parse_list);
    for entries in [Some(hosts::parse_file(data)), list].into_iter().flatten().flatten() {
        assert!(entries.len() <= MAX_HOSTS);
        for entry in entries {
            assert!(hosts::is_host_name(&entry.host), "{:?}", entry.host);
            assert!(entry.user.as_deref().is_none_or(hosts::is_user_name));
        }
    }
}
