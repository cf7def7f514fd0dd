//! What hosts and ranks use, asked of all members page by page.

use mpd_ring::RequestId;
use mpd_wire::DaemonName;
use mpd_wire::message::{Answer, ConsoleReply, HostTop, ManagerOrder, Order, OrderAnswer};

use crate::daemon::membership::asks::Wanted;
use crate::daemon::membership::{Errand, Hands, Membership};

impl Membership {
    /// A console wants to know what is used.
    pub(super) fn ask_top(&mut self, console: usize) {
        let wanted = Wanted::Top { page: 0, missing: Vec::new() };
        self.scatter(console, wanted, &Order::Top { page: 0 });
    }

    /// What is used here. The managers count output meanwhile, for the next time.
    pub(super) fn obey_top(&mut self, hands: &mut Hands<'_>, page: u32) -> OrderAnswer {
        if page == 0 {
            let order = ManagerOrder::CountOutput;
            let errand = |job| Errand { job, order: order.clone(), link: None };
            self.errands.extend(hands.jobs.uncounted().into_iter().map(errand));
        }
        let (machine, runs, more) = hands.jobs.usage(page);
        OrderAnswer::Top { machine, runs, more }
    }

    /// One page of every host came in.
    pub(super) fn topped(
        &mut self,
        request: RequestId,
        page: u32,
        answers: &[Answer],
        missing: Vec<DaemonName>,
    ) {
        let Some(console) = self.asks.end(request) else { return };
        let used = self.page(page, answers, |host, answer| match answer {
            OrderAnswer::Top { machine, runs, more } => {
                Some((HostTop { host: host.clone(), machine, runs }, more))
            }
            _ => None,
        });
        let more = used.more;
        self.post_page(console, used, &missing, |hosts, missing, more| ConsoleReply::Top {
            hosts,
            missing,
            more,
        });
        if more {
            let page = page + 1;
            self.scatter(console, Wanted::Top { page, missing }, &Order::Top { page });
        }
    }
}
