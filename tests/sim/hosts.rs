//! Operations on a host: its daemon starts, is killed or is frozen; its power fails.

use mpd_ring::{Formed, GAP, Ring, RingConfig, Seed};
use mpd_sansio::Pump;
use mpd_wire::{Address, Instance, Record, Standing};

use crate::daemon::Daemon;
use crate::process::Process;
use crate::recordings::{Memory, recorded};
use crate::world::{Happening, Host, MS, Start, World};

impl World {
    /// A daemon without memory starts on a powered host.
    pub(crate) fn boot(&mut self, host: usize, start: &Start) {
        if self.hosts[host].ring.is_some() || !self.hosts[host].powered {
            return;
        }
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.random.bits().to_be_bytes());
        bytes[8..].copy_from_slice(&self.random.bits().to_be_bytes());
        let instance = Instance::from_bytes(bytes);
        let address = |&of: &usize| self.hosts[of].alias.clone();
        let seed = |of: &usize| Seed { ordinal: *of as u64, address: address(of) };
        let config = RingConfig {
            name: self.hosts[host].name.clone(),
            instance,
            addresses: vec![start.address.clone().unwrap_or(self.hosts[host].address.clone())],
            ncpus: if self.has_nodes { 2 } else { 1 },
            ordinal: start.ordinal,
            entry: start.entry.iter().map(address).collect(),
            seeds: start.seeds.iter().map(seed).collect(),
            waits: start.waits,
            timing: self.timing.clone(),
            chance: self.random.bits(),
            rules: self.rules,
        };
        let ring = if self.trace.records {
            let memory = Memory::default();
            let ring = recorded(self.time(), config, &memory);
            self.trace.recordings.push(memory);
            ring
        } else {
            Pump::new(Ring::new(self.time(), config))
        };
        let ring = if self.has_nodes {
            let disk = self.hosts[host].disk.clone();
            let process = Process::new(self.time(), ring, disk, u8::from(!self.has_managers));
            let process = match self.has_managers {
                true => process.with_managers(),
                false => process.with_jobs(),
            };
            Daemon::Node(Box::new(process))
        } else {
            Daemon::Ring(Box::new(ring))
        };
        let machine = &mut self.hosts[host];
        machine.instance = instance;
        machine.incarnation += 1;
        machine.frozen = false;
        machine.alarm = u64::MAX;
        machine.ring = Some(ring);
        self.note(host, "boots", 0);
        self.perform(host);
    }

    /// All hosts run the daemons of a ring that exists already. The links between them come up now.
    pub(crate) fn boot_formed(&mut self) {
        for machine in &mut self.hosts {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&self.random.bits().to_be_bytes());
            machine.instance = Instance::from_bytes(bytes);
        }
        let record = |(ordinal, machine): (u64, &Host)| Record {
            name: machine.name.clone(),
            incarnation: 1,
            standing: Standing::Live,
            instance: machine.instance,
            position: ordinal * GAP,
            ordinal,
            ncpus: 1,
            draining: false,
            addresses: vec![machine.address.clone()],
            by: None,
            age_s: 0,
        };
        let list = Formed::new((0..).zip(&self.hosts).map(record));
        for host in 0..self.hosts.len() {
            let machine = &self.hosts[host];
            let config = RingConfig {
                name: machine.name.clone(),
                instance: machine.instance,
                addresses: vec![machine.address.clone()],
                ncpus: 1,
                ordinal: Some(host as u64),
                entry: Vec::new(),
                waits: false,
                seeds: Vec::new(),
                timing: self.timing.clone(),
                chance: self.random.bits(),
                rules: self.rules,
            };
            let ring = Pump::new(Ring::formed(self.time(), config, &list));
            let machine = &mut self.hosts[host];
            machine.incarnation += 1;
            machine.ring = Some(Daemon::Ring(Box::new(ring)));
            self.perform(host);
        }
    }

    /// The host has another address from now on, and its connections are lost. The daemon learns of the new address
    /// later.
    pub(crate) fn readdress(&mut self, host: usize) {
        let machine = &mut self.hosts[host];
        machine.moves += 1;
        machine.address =
            Address::new(&format!("h{host}.{}:1", machine.moves)).expect("an address");
        self.note(host, "moves", 0);
        for (connection, side) in std::mem::take(&mut self.hosts[host].ends).into_values() {
            self.tear(connection, side);
        }
        self.learn(host);
    }

    /// The daemon will learn its address.
    pub(crate) fn learn(&mut self, host: usize) {
        let incarnation = self.hosts[host].incarnation;
        let at = self.now + self.random.below(3000) as u64 * MS;
        self.push(at, Happening::Learn { host, incarnation });
    }

    pub(crate) fn thaw(&mut self, host: usize) {
        if !std::mem::replace(&mut self.hosts[host].frozen, false) {
            return;
        }
        self.note(host, "thaws", 0);
        for input in std::mem::take(&mut self.hosts[host].backlog) {
            self.input(host, input);
        }
        self.set_alarm(host);
    }

    pub(crate) fn freeze(&mut self, host: usize) {
        if self.hosts[host].ring.is_some() {
            self.hosts[host].frozen = true;
            self.note(host, "freezes", 0);
        }
    }

    /// The process is gone; its kernel notifies all peers.
    pub(crate) fn kill(&mut self, host: usize) {
        if self.hosts[host].ring.is_some() {
            self.note(host, "is killed", 0);
            for (connection, side) in self.forget_daemon(host) {
                self.end(connection, side);
            }
        }
    }

    /// The machine is gone without notifying its peers.
    pub(crate) fn power_off(&mut self, host: usize) {
        self.note(host, "loses power", 0);
        self.hosts[host].powered = false;
        let ends = self.forget_daemon(host);
        self.hosts[host].disk.managers.lose_power();
        for (connection, side) in ends {
            if let Some(connection) = self.connections.get_mut(&connection) {
                connection.vanish(side);
            }
        }
    }

    pub(crate) fn power_on(&mut self, host: usize) {
        self.hosts[host].powered = true;
        self.kick();
    }
}
