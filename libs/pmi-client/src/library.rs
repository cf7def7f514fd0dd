//! Functions that `libpmi` and `libpmi2` have in common, above the texts and arrays of C.
//!
//! Each library has one [`Library`] for its process. The methods that return a code are whole
//! functions of C: a panic in them becomes [`FAIL`](crate::c::FAIL).

use std::error::Error as _;
use std::ffi::{c_char, c_int};
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::c::{
    ERR_INIT, ERR_INVALID_ARG, ERR_INVALID_LENGTH, Out, Outcome, Room, code, int, set_text,
};
use crate::client::{Client, Version};
use crate::server::{Pair, Spawned};
use pmi_proto::{SpawnCommand, SpawnRequest};

/// The client of a process, between the initialization of the library and its end.
#[derive(Debug)]
pub struct Library {
    version: Version,
    client: Mutex<Option<Arc<Client>>>,
}

impl Library {
    /// A library that is not initialized.
    pub const fn new(version: Version) -> Self {
        Self { version, client: Mutex::new(None) }
    }

    /// Connects to the process manager, unless the library is initialized already. Writes an error
    /// to standard error, since its code does not name the cause.
    ///
    /// # Errors
    /// The code of the error.
    pub fn initialize(&self) -> Result<Arc<Client>, c_int> {
        let mut client = self.lock();
        if let Some(client) = &*client {
            return Ok(client.clone());
        }
        let connected = Client::connect(self.version).map_err(|error| {
            let cause = error.source().map_or_else(String::new, |cause| format!(": {cause}"));
            let _ = writeln!(std::io::stderr(), "PMI: {error}{cause}");
            c_int::from(error)
        })?;
        Ok(client.insert(Arc::new(connected)).clone())
    }

    /// Whether the library is initialized.
    pub fn is_initialized(&self) -> bool {
        self.lock().is_some()
    }

    /// Reports to the process manager that the process ends as planned, and forgets the client.
    pub fn finalize(&self) -> c_int {
        code(|| {
            let client = self.lock().take().ok_or(ERR_INIT)?;
            Ok(client.finalize_shared()?)
        })
    }

    /// The client, for one call.
    ///
    /// # Errors
    /// [`ERR_INIT`] if the library is not initialized.
    pub fn client(&self) -> Result<Arc<Client>, c_int> {
        self.lock().clone().ok_or(ERR_INIT)
    }

    /// Requests the end of the job with `exit_code`; `None`: only this process ends. A process
    /// without other ranks writes the message to standard error. The caller ends the process.
    pub fn abort(&self, exit_code: Option<c_int>, message: &[u8]) {
        let _ = code(|| {
            let client = self.client().ok();
            let is_single = client.as_ref().is_none_or(|client| client.process_info().size == 1);
            if is_single && !message.is_empty() {
                // There may be no process manager that writes it.
                let _ = writeln!(std::io::stderr(), "{}", String::from_utf8_lossy(message));
            }
            if let Some((client, exit_code)) = client.zip(exit_code) {
                // This process ends, whether the request was sent or not.
                let _ = client.abort(exit_code, message);
            }
            Ok(())
        });
    }

    /// Writes a number of the client to the place that C gave.
    pub fn number(&self, out: Out, find: impl FnOnce(&Client) -> Result<c_int, c_int>) -> c_int {
        code(|| {
            let out = out.ok_or(ERR_INVALID_ARG)?;
            out.write(find(&*self.client()?)?);
            Ok(())
        })
    }

    /// Writes the name of the job into the buffer that C gave.
    ///
    /// # Errors
    /// [`ERR_INVALID_LENGTH`] if the name does not fit, [`ERR_INIT`].
    pub fn job_name(&self, room: &Room<c_char>) -> Outcome {
        set_text(room, &self.client()?.process_info().job, ERR_INVALID_LENGTH)
    }

    /// Sends a signal to a rank of the job. Only MPD supports this request.
    pub fn signal_rank(&self, rank: c_int, signal: c_int) -> c_int {
        code(|| {
            let rank = u32::try_from(rank).map_err(|_| ERR_INVALID_ARG)?;
            if signal <= 0 {
                return Err(ERR_INVALID_ARG);
            }
            Ok(self.client()?.signal_rank(rank, signal)?)
        })
    }

    /// Publishes the port of a service; `None` is a NULL of C.
    pub fn publish(&self, service: Option<&[u8]>, port: Option<&[u8]>) -> c_int {
        code(|| {
            let (service, port) = service.zip(port).ok_or(ERR_INVALID_ARG)?;
            Ok(self.client()?.publish(service, port)?)
        })
    }

    /// Withdraws a published service; `None` is a NULL of C.
    pub fn unpublish(&self, service: Option<&[u8]>) -> c_int {
        code(|| Ok(self.client()?.unpublish(service.ok_or(ERR_INVALID_ARG)?)?))
    }

    /// Starts a job. `errors` returns the buffer that C gave for a number of codes, or `None` if
    /// there is no buffer. A code is written for each process; 0: the process was started.
    ///
    /// # Errors
    /// The code of the error.
    pub fn spawn(
        &self,
        request: &SpawnRequest,
        errors: impl FnOnce(c_int) -> Option<Room<c_int>>,
    ) -> Result<Spawned, c_int> {
        let spawned = self.client()?.spawn(request)?;
        let total =
            request.commands.iter().map(|command| command.size).fold(0, u32::saturating_add);
        if let Some(room) = errors(int(total)) {
            // The answer has no codes if all processes were started.
            room.fill(spawned.codes.iter().copied().chain(std::iter::repeat(0)));
        }
        Ok(spawned)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Client>>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The commands of a spawn. `programs` and `sizes` are the arrays that C gave, of equal length;
/// `None` is a NULL. `rest` returns the arguments and the info of a command by its index.
///
/// # Errors
/// [`ERR_INVALID_ARG`] if there is no command or a size is negative, and the errors of `rest`.
pub fn commands(
    programs: Option<Vec<&[u8]>>,
    sizes: Option<&[c_int]>,
    rest: impl Fn(usize) -> Result<(Vec<Vec<u8>>, Vec<Pair>), c_int>,
) -> Result<Vec<SpawnCommand>, c_int> {
    let (programs, sizes) = programs.zip(sizes).ok_or(ERR_INVALID_ARG)?;
    if programs.is_empty() {
        return Err(ERR_INVALID_ARG);
    }
    let command = |(index, (program, size)): (usize, (&[u8], &c_int))| {
        let (args, info) = rest(index)?;
        let size = u32::try_from(*size).map_err(|_| ERR_INVALID_ARG)?;
        Ok(SpawnCommand { program: program.to_vec(), args, size, info })
    };
    programs.into_iter().zip(sizes).enumerate().map(command).collect()
}
