//! Routes events of the owners.

use mpd_clients::{self as clients, FromJob};
use mpd_job::manager::Input;
use mpd_placement::rank_map;
use mpd_ranks::Input as Ranks;
use mpd_stdio::machine::Input as Stdio;

use crate::event::Event;
use crate::node::Node;
use crate::output::{ForLinks, Output};
use crate::spawning;
use crate::turn::Moment;

impl Node {
    pub(crate) fn route_event(&mut self, at: Moment<'_>, event: Event) {
        match event {
            Event::Input(input) => self.machine.post(input),
            Event::Work(work) => self.perform(work),

            Event::Console(input) => self.take_of_console(input),
            Event::UnknownOrder(kind) => self.refuse_order(at, &kind),
            Event::Daemon(order) => self.take_of_daemon(at, order),
            Event::DaemonGone => self.daemon_gone(at),
            Event::Registered(true) => {
                self.machine.post(Input::Registered);
                self.perform(Ranks::Registered);
                self.perform(clients::Input::DaemonReplaced);
            }
            Event::Registered(false) => self.upstream.look_for_daemon(at.now),

            Event::News(news) => self.take_news(at, news),
            Event::Broken(end, problem) => self.break_off(end, problem),
            Event::UpIfRoom(message) => self.send_up_if_room(at, message),

            Event::Span(mark, begun_or_ended, phase, rank) => {
                self.upstream.mark(mark, begun_or_ended, phase, rank);
            }
            Event::TraceEnds => self.report_to(at, |upstream, turn| upstream.end_trace(turn)),

            Event::Spawn(caller, spawn) => {
                spawning::ask(&self.job, &mut self.queue, caller, &spawn);
            }
            Event::Bound(first, bindings) => self.job.worlds.bind(first, bindings),
            Event::Going => self.go(at),
            Event::Listening(port) => self.job.pmix_port = port,
            Event::Ended(rank) => {
                self.queue.clients(FromJob::Ended(rank));
                self.perform(Output::RankEnded(rank));
            }
            Event::Retired(rank) => {
                self.queue.clients(FromJob::Removed(rank));
                self.perform(Stdio::Retired(rank));
            }
            Event::Killing => {
                self.perform(ForLinks::StopStaging);
                self.perform(Ranks::Killing);
                self.perform(Stdio::Killing);
            }
            Event::Forgotten(first) => self.job.worlds.remove(first),
        }
    }

    /// The daemon has died. Managers that have not connected through it cannot connect any more.
    fn daemon_gone(&mut self, at: Moment<'_>) {
        self.upstream.look_for_daemon(at.now);
        self.perform(clients::Input::Meeting(mpd_connect::Input::DaemonLost));
        if self.children().any(|tree_index| at.facts.awaits(tree_index)) {
            self.machine.post(Input::CutOff);
        }
    }

    /// The ranks of this host are about to be started.
    fn go(&mut self, at: Moment<'_>) {
        self.report_to(at, |upstream, turn| upstream.go(turn));
        let hosts = self.job.order.host_slices.iter().map(|host| (&host.member, &host.ranks));
        let is_mapped = self.job.is_root() && self.job.spec.placement.print_rank_map;
        let map = is_mapped.then(|| format!("{}\n", rank_map(hosts)));
        self.perform(Stdio::Going(map));
        self.perform(mpd_ending::Input::Going);
        self.perform(Output::Listen);
    }
}
