//! A program that gdb could not resume, although gdb had reported that it runs.

use super::{Driver, Program, records};
use crate::mi::{Fields, Value};

impl Driver {
    /// The command that ran the program has failed after that report. gdb sends no record of a stop
    /// then.
    pub(super) fn resume_failed(&mut self) {
        self.resumed = None;
        if self.killing.is_on {
            return self.have_gdb_kill();
        }
        // The log has given the reason.
        self.report(b'!', b"gdb could not have the program go on");
        self.recheck = Some(self.send_mi(b"thread-info"));
    }

    /// Takes the state of the program that gdb reports.
    pub(super) fn rechecked(&mut self, fields: &Fields) {
        self.recheck = None;
        let threads = fields.get("threads").map_or(&[][..], Value::fields);
        let text =
            |thread: &Value, name| thread.get(name).and_then(Value::text).map(<[u8]>::to_vec);
        let runs =
            |(_, thread): &(String, Value)| text(thread, "state").as_deref() == Some(b"running");
        if self.program != Program::Running || threads.iter().any(runs) {
            return;
        }
        let current = fields.text("current-thread-id");
        let thread = threads.iter().find(|(_, thread)| text(thread, "id").as_deref() == current);
        let frame = thread.and_then(|(_, thread)| thread.get("frame"));
        self.program = if self.process.is_some() {
            let mut place = frame.map_or_else(|| b"? ?".to_vec(), records::place);
            place.extend(b" ?");
            Program::Stopped(place)
        } else {
            Program::Idle
        };
        self.settled();
    }
}
