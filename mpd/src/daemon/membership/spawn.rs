//! What jobs of this host want for processes that their ranks spawn: where they go, and managers there.

use mpd_wire::DaemonName;
use mpd_wire::message::{Launch, ManagerOrder};

use crate::daemon::jobs::Spawn;
use crate::daemon::membership::{Announcement, Errand, Hands, Membership};
use crate::daemon::placement;

impl Membership {
    /// Does what root managers here want.
    pub(super) fn serve_spawns(&mut self, hands: &mut Hands<'_>) {
        for spawn in hands.jobs.take_spawns() {
            match spawn {
                Spawn::Place { job, request, wish } => {
                    let outcome = placement::spawned_among(self.pump.machine(), &wish);
                    let order = ManagerOrder::Placed { request, outcome };
                    self.errands.push_back(Errand { job, order, link: None });
                }
                // Its timeline is that of the start.
                Spawn::Grow(mut launch) => {
                    let known = |member: &DaemonName| {
                        Some(self.pump.machine().record(member)?.addresses.clone())
                    };
                    launch.shares.address(known);
                    self.announce_growth(hands, &launch);
                }
            }
        }
    }

    fn announce_growth(&mut self, hands: &mut Hands<'_>, launch: &Launch) {
        match Announcement::new(launch, false) {
            Ok(Some(announcement)) => self.announce(hands, announcement),
            Ok(None) => {}
            Err(e) => {
                let problem = format!("{e:#}");
                let members = launch.newcomers().map(|(_, share)| share.member.clone());
                let missing = members.map(|member| (member, problem.clone()));
                self.report_missing(launch.job.clone(), missing);
            }
        }
    }
}
