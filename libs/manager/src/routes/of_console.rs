//! Routes messages of the console, and orders of the daemon and of users.

use mpd_clients as clients;
use mpd_job::manager::Input;
use mpd_job::manager::spawns::SpawnInput;
use mpd_sansio::state;
use mpd_stdio::machine::Input as Stdio;
use mpd_wire::message::{JobInput, JobNews, JobOrder, ManagerOrder, ManagerReport};

use crate::node::Node;
use crate::spawning;
use crate::turn::Moment;

impl Node {
    pub(super) fn take_of_console(&mut self, input: JobInput) {
        self.machine.post(match input {
            JobInput::Signal { signal } => Input::Signal(signal),
            JobInput::Resize { columns, lines } => Input::Resize(columns, lines),
            JobInput::Interrupt => Input::Interrupt,
            JobInput::HangUp => Input::HangUp,
            JobInput::Suspend => Input::Suspend,
            JobInput::Resume => Input::Resume,
            JobInput::Debug { ranks, line } => Input::Debug(ranks, line),
            JobInput::Restart => Input::Restart,
            JobInput::GoOn => Input::GoOn,
            JobInput::Echo => return self.console(JobNews::Echo),
        });
    }

    /// Tells the user that an order is unknown here.
    pub(super) fn refuse_order(&mut self, at: Moment<'_>, kind: &str) {
        let release = env!("CARGO_PKG_VERSION");
        let text =
            format!("the job's manager of release {release} does not know the order '{kind}'");
        self.report_to(at, |upstream, turn| upstream.report_notice(turn, text));
    }

    pub(super) fn take_of_daemon(&mut self, at: Moment<'_>, order: ManagerOrder) {
        match order {
            ManagerOrder::Kill => self.machine.post(Input::Kill),
            ManagerOrder::Job(order) => self.carry_out(order),
            ManagerOrder::Missing { members } => self.machine.post(Input::Missing(members)),
            ManagerOrder::HostsChanged { changes, found } => {
                self.machine.post(Input::HostsChanged { changes, found });
            }
            ManagerOrder::ManagerEnded { member, end } => {
                self.machine.post(Input::ManagerEnded(member, end));
            }
            ManagerOrder::ReportEvents => self.machine.post(Input::ReportEvents),
            ManagerOrder::CountOutput => self.perform(Stdio::CountOutput),
            ManagerOrder::State { request } => self.report_state(request),
            ManagerOrder::Placed { request, outcome } => {
                self.machine.post(Input::Spawn(SpawnInput::Placed(request, outcome)));
            }
            ManagerOrder::Named { request, answer } => {
                self.perform(clients::Input::Named(request, answer));
            }
            ManagerOrder::Met { request, answer } => {
                let answer = mpd_connect::Input::Answer(request, answer);
                self.perform(clients::Input::Meeting(answer));
            }
            ManagerOrder::Passed { from, payload } => {
                let passed = mpd_connect::Input::Passed(from, payload);
                self.perform(clients::Input::Meeting(passed));
            }
            ManagerOrder::NameLost { name, to } => {
                self.perform(clients::Input::NameLost(name, to));
            }
            ManagerOrder::NameRefused(refusal) => {
                self.perform(clients::Input::NameRefused(refusal));
            }
            ManagerOrder::Launched { scatter, depth } => {
                self.report_to(at, |upstream, turn| upstream.launched(turn, scatter, depth));
            }
            // The first has been carried out before, and the second came with a connection.
            ManagerOrder::Start(_) | ManagerOrder::Link { .. } => {}
            // The connection has noted it.
            ManagerOrder::Refused { .. } => {}
        }
    }

    /// Carries out a user's order to the job.
    fn carry_out(&mut self, order: JobOrder) {
        match order {
            JobOrder::Kill => self.machine.post(Input::Kill),
            JobOrder::Signal { signal, single: false } => self.machine.post(Input::Signal(signal)),
            JobOrder::Signal { signal, single: true } => {
                self.machine.post(Input::SignalProcesses(signal));
            }
            JobOrder::Grow { count } => spawning::grow(&self.job, &mut self.queue, count),
            JobOrder::Retire { count } => self.machine.post(Input::Retire(count)),
            JobOrder::Label { format } => self.perform(Stdio::Label(format)),
            JobOrder::SwitchStdin { ranks } => self.perform(Stdio::SwitchStdin(ranks)),
        }
    }

    /// Sends the state of the machine to the daemon, for a user.
    fn report_state(&mut self, request: u32) {
        for (text, more) in state::pieces(&self.machine) {
            self.queue.daemon(ManagerReport::State { request, text, more });
        }
    }
}
