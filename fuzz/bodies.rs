//! The bodies of the fuzz targets. Each gets any bytes and checks properties that must hold for all inputs.
//!
//! libFuzzer runs them through `fuzz_targets/`. The tests of the suite run them over the corpus of seeds and
//! its mutations (`tests/fuzz`). A body panics if a property does not hold.

#[path = "bodies/channel.rs"]
mod channel;
#[path = "bodies/debug.rs"]
mod debug;
#[path = "bodies/farm.rs"]
mod farm;
#[path = "bodies/files.rs"]
mod files;
#[path = "bodies/messages.rs"]
mod messages;
#[path = "bodies/pmi.rs"]
mod pmi;
#[path = "bodies/pmix.rs"]
mod pmix;
#[path = "bodies/requests.rs"]
mod requests;
#[path = "bodies/ring.rs"]
mod ring;
#[path = "bodies/slots.rs"]
mod slots;
#[path = "bodies/text.rs"]
mod text;

/// The function that gets the input of one execution.
pub(crate) type Body = fn(&[u8]);

/// Every target by its name. Its seeds are in `corpus-seeds/NAME`.
pub(crate) const TARGETS: [(&str, Body); 28] = [
    ("handshake_responder", channel::responder),
    ("handshake_initiator", channel::initiator),
    ("sealed_frames", channel::sealed_frames),
    ("plain_frames", messages::plain_frames),
    ("console_messages", messages::console),
    ("manager_messages", messages::manager),
    ("ring_messages", messages::ring),
    ("job_spec", messages::job_spec),
    ("ring", ring::ring),
    ("boot_list", ring::boot_list),
    ("host_file", text::host_file),
    ("rank_file", text::rank_file),
    ("allocation", text::allocation),
    ("http_requests", text::http_requests),
    ("key_file", text::key_file),
    ("pmi_lines", pmi::pmi_lines),
    ("pmi_messages", pmi::pmi_messages),
    ("pmix_stream", pmix::stream),
    ("pmix_messages", pmix::messages),
    ("mi_records", debug::mi_records),
    ("elf_files", files::elf),
    ("farm_frames", farm::frames),
    ("farm_job_log", farm::job_log),
    ("farm_commands", farm::commands),
    ("handle_frames", requests::frames),
    ("handle_table", requests::table),
    ("slots", slots::machine),
    ("slot_texts", slots::texts),
];

/// Runs the target of that name.
#[allow(dead_code, reason = "libFuzzer runs one target by its name, the tests run all")]
pub(crate) fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|(target, _)| *target == name);
    target.expect("a target of that name").1(data);
}

/// Choices from the bytes of the input. After its end, every byte is 0.
pub(crate) struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) const fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// A number from 0 to `limit - 1`, below 256.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit
    }

    /// The next bytes. The first byte is their number; the result is shorter at the end of the input.
    pub(crate) fn some(&mut self) -> &'a [u8] {
        let count = usize::from(self.byte()).min(self.0.len());
        let (some, rest) = self.0.split_at(count);
        self.0 = rest;
        some
    }

    pub(crate) const fn rest(&mut self) -> &'a [u8] {
        let rest = self.0;
        self.0 = &[];
        rest
    }
}

/// Cuts `data` in pieces with the sizes in `cuts`, and calls `take` with each piece.
pub(crate) fn in_pieces(mut data: &[u8], mut cuts: Bytes<'_>, mut take: impl FnMut(&[u8])) {
    while !data.is_empty() {
        let size = (usize::from(cuts.byte()) + 1).min(data.len());
        take(&data[..size]);
        data = &data[size..];
    }
}
