//! Rings that no machine here can run: the launch of a job over 1,000 to 100,000 hosts.
//!
//! `costs` measures what a daemon and a manager need. `world` gives these costs to the state machines of ring and
//! job on simulated hosts. `model` has formulas, for comparison and for numbers of hosts that a ring cannot have.

mod costs;
mod model;
mod world;

use mpd_wire::MAX_MEMBERS;

use costs::Costs;
use world::{Phase, World};

/// The figures of a ring of one size.
#[derive(Debug)]
pub(crate) struct Figures {
    hosts: usize,
    source: &'static str,
    scatter_ms: f64,
    launch_ms: f64,
    job_ms: f64,
    steps: f64,
    messages: f64,
    most_messages: f64,
    kib: f64,
    most_kib: f64,
    death_ms: f64,
    lap_s: f64,
    lap_kib: f64,
    list_mib: f64,
}

/// Bytes of a specification of usual size: arguments, environment, limits.
const SPEC: usize = 8 * 1024;

pub(crate) fn scale(members: usize, sizes: &[usize], rounds: usize) -> Result<(), String> {
    let costs = Costs::measure(members, rounds)?;
    println!("\n### Costs, from {members} daemons of this machine\n\n{}", costs.table());
    let mut all = Vec::new();
    for &size in sizes {
        if size <= MAX_MEMBERS {
            all.push(simulated(size, costs));
        }
        all.push(model::figures(size, SPEC, &costs));
    }
    let kib = SPEC / 1024;
    println!("\n### Times of a job with a rank on each host, specification of {kib} KiB\n");
    println!(
        "| hosts | by | answers of the scatter are back ms | all ranks started ms | job over ms | \
         all know of a death ms | lap of mpdtrace s |\n|---:|---|---:|---:|---:|---:|---:|"
    );
    all.iter().for_each(times);
    println!("\n### Messages and memory of the same\n");
    println!(
        "| hosts | by | steps of the scatter | messages of a host: mean / most | KiB sent by a host: mean / most | \
         KiB in a hop of the lap | list MiB |\n|---:|---|---:|---:|---:|---:|---:|"
    );
    all.iter().for_each(traffic);
    Ok(())
}

fn times(figures: &Figures) {
    let Figures { hosts, source, scatter_ms, launch_ms, job_ms, death_ms, lap_s, .. } = figures;
    println!(
        "| {hosts} | {source} | {scatter_ms:.1} | {launch_ms:.1} | {job_ms:.1} | {death_ms:.1} | {lap_s:.2} |"
    );
}

fn traffic(figures: &Figures) {
    let Figures { hosts, source, steps, messages, most_messages, .. } = figures;
    let Figures { kib, most_kib, lap_kib, list_mib, .. } = figures;
    println!(
        "| {hosts} | {source} | {steps:.0} | {messages:.1} / {most_messages:.0} | {kib:.0} / {most_kib:.0} | \
         {lap_kib:.0} | {list_mib:.1} |"
    );
}

/// By the state machines of real daemons and managers.
fn simulated(size: usize, costs: Costs) -> Figures {
    const LONG: f64 = 9e6;
    let mut world = World::formed(size, SPEC, costs);
    let begin = world.now();
    world.launch();
    let launch =
        world.run_until(|world| world.scattered.is_some() && world.finished.is_some(), LONG);
    let since = |at: Option<f64>| at.map_or(f64::NAN, |at| (at - begin) / 1e3);
    let (scatter_ms, launch_ms) = (since(world.scattered), since(world.all_started));
    let job_ms = since(world.finished);
    world.trace();
    let lap = world.run_until(|world| world.lap.is_some(), LONG);
    world.kill(size / 3);
    let death = world.run_until(|world| world.all_list(size - 1), LONG);
    let Phase { messages, most_messages, bytes, most_bytes, .. } = launch;
    Figures {
        hosts: size,
        source: "simulator",
        scatter_ms,
        launch_ms,
        job_ms,
        steps: f64::from(world.depth),
        messages,
        most_messages: most_messages as f64,
        kib: bytes / 1024.0,
        most_kib: most_bytes as f64 / 1024.0,
        death_ms: death.seconds * 1e3,
        lap_s: lap.seconds,
        lap_kib: lap.bytes / 1024.0,
        list_mib: costs.member_bytes * size as f64 / (1 << 20) as f64,
    }
}
