//! A process that no process manager has started.

use pmi_client::{Client, Error, SpawnRequest, Version};

#[test]
fn a_singleton_is_rank_0_of_1_in_either_version() {
    for version in [Version::One, Version::Two] {
        let client = Client::connect_by(version, |_| None).unwrap();
        assert_eq!((client.process_info().rank, client.process_info().size), (0, 1));
        assert!(!client.process_info().job.is_empty());
        client.put(b"a", b"1").unwrap();
        client.fence().unwrap();
        assert_eq!(client.get(b"a").unwrap(), Some(b"1".to_vec()));
        assert_eq!(client.get(b"b").unwrap(), None);
        assert_eq!(client.ranks_of_node().unwrap(), [0]);
        assert_eq!(client.universe_size().unwrap(), Some(1));
        assert_eq!(client.ring(b"v").unwrap().left, b"v");
        assert!(matches!(client.signal_rank(1, 10), Err(Error::Refused { .. })));
        // Signal 0 and the internal signals of the C library cannot be sent.
        for signal in [0, 32, 65] {
            assert!(
                matches!(client.signal_rank(0, signal), Err(Error::Refused { .. })),
                "{signal}"
            );
        }
        assert!(matches!(client.spawn(&SpawnRequest::default()), Err(Error::Unsupported(_))));
        client.finalize().unwrap();
    }
}
