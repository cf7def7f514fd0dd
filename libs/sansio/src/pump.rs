//! A machine and its queue of inputs.
//!
//! The contract of every machine is: one input, then all its outputs, then the next input. Performing
//! an output often produces another input. The owner must not pass that input to the machine at once,
//! since outputs of the earlier input are still queued. A [`Pump`] makes this mistake impossible:
//! [`Pump::post`] only queues an input. [`Pump::next`] takes an input from the queue only when the
//! machine has no output left.
//!
//! ```text
//! loop of the owner:   read, post what happened
//!                      while let Some(output) = pump.next(now) { perform(output) }   // may post
//! ```
//!
//! The real event loops and the simulators drive their machines through this type.

use std::collections::VecDeque;
use std::fmt;

use crate::Time;

/// The message with which a machine panics in debug builds if its owner breaks the contract.
pub const UNDRAINED: &str = "outputs are left from an earlier call";

/// A state machine, as a [`Pump`] drives it.
pub trait Machine {
    /// An event that the owner reports.
    type Input;
    /// An action for the owner.
    type Output;

    /// Takes one input. Debug builds panic if an output of an earlier call is left.
    fn handle(&mut self, now: Time, input: Self::Input);

    /// Acts on every deadline at or before `now`. Debug builds panic as for [`Machine::handle`].
    fn handle_timeout(&mut self, now: Time);

    /// The owner's turn ends. Machines that collect reports during a turn send them now. Debug builds
    /// panic as for [`Machine::handle`].
    fn end_turn(&mut self, now: Time) {
        let _ = now;
    }

    /// The next output; `None` when all are taken.
    fn poll_output(&mut self) -> Option<Self::Output>;
}

/// One call of a machine, as an [`Observer`] sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a, I> {
    /// [`Machine::handle`] with this input.
    Input(&'a I),
    /// [`Machine::handle_timeout`].
    Timeout,
    /// [`Machine::end_turn`].
    EndOfTurn,
}

/// Sees every call of a machine before the machine does, and every output.
pub trait Observer<M: Machine> {
    /// The machine is about to take this step.
    fn before(&mut self, machine: &M, now: Time, step: Step<'_, M::Input>);

    /// The machine has this output, as a result of the last step or of its construction.
    fn output(&mut self, output: &M::Output);
}

/// A machine and its queue of inputs; see the module.
pub struct Pump<M: Machine> {
    machine: M,
    inbox: VecDeque<M::Input>,
    observer: Option<Box<dyn Observer<M>>>,
}

impl<M: Machine> Pump<M> {
    /// A pump without inputs. The machine may have outputs already.
    pub const fn new(machine: M) -> Self {
        Self { machine, inbox: VecDeque::new(), observer: None }
    }

    /// The same pump with an observer. The machine has taken no step yet.
    #[must_use]
    pub fn observed(self, observer: impl Observer<M> + 'static) -> Self {
        Self { observer: Some(Box::new(observer)), ..self }
    }

    /// Queues an input behind the earlier ones.
    pub fn post(&mut self, input: M::Input) {
        self.inbox.push_back(input);
    }

    /// The next output to perform. Takes the next input only when the machine has no output left;
    /// `None` when no input is left either.
    pub fn next(&mut self, now: Time) -> Option<M::Output> {
        loop {
            if let Some(output) = self.machine.poll_output() {
                if let Some(observer) = &mut self.observer {
                    observer.output(&output);
                }
                return Some(output);
            }
            let input = self.inbox.pop_front()?;
            if let Some(observer) = &mut self.observer {
                observer.before(&self.machine, now, Step::Input(&input));
            }
            self.machine.handle(now, input);
        }
    }

    /// Lets time pass for the machine. Call when [`Pump::next`] has returned `None`, then drain it
    /// again.
    pub fn handle_timeout(&mut self, now: Time) {
        self.announce(now, Step::Timeout);
        self.machine.handle_timeout(now);
    }

    /// Ends the owner's turn. Call when [`Pump::next`] has returned `None`, then drain it again.
    pub fn end_turn(&mut self, now: Time) {
        self.announce(now, Step::EndOfTurn);
        self.machine.end_turn(now);
    }

    fn announce(&mut self, now: Time, step: Step<'_, M::Input>) {
        debug_assert!(self.inbox.is_empty(), "inputs are handled before anything else");
        if let Some(observer) = &mut self.observer {
            observer.before(&self.machine, now, step);
        }
    }

    /// Whether no input is queued. The machine may still have outputs.
    pub fn is_dry(&self) -> bool {
        self.inbox.is_empty()
    }

    /// The machine, for queries.
    pub const fn machine(&self) -> &M {
        &self.machine
    }
}

impl<M: Machine + fmt::Debug> fmt::Debug for Pump<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pump")
            .field("machine", &self.machine)
            .field("inputs", &self.inbox.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    /// Outputs each number that many times, and logs the order of calls.
    #[derive(Default)]
    struct Echo {
        outputs: VecDeque<u32>,
        log: Vec<String>,
    }

    impl Machine for Echo {
        type Input = u32;
        type Output = u32;

        fn handle(&mut self, _: Time, input: u32) {
            assert!(self.outputs.is_empty());
            self.log.push(format!("in {input}"));
            self.outputs.extend((0..input).map(|_| input));
        }

        fn handle_timeout(&mut self, _: Time) {
            self.outputs.push_back(0);
        }

        fn poll_output(&mut self) -> Option<u32> {
            let output = self.outputs.pop_front()?;
            self.log.push(format!("out {output}"));
            Some(output)
        }
    }

    #[test]
    fn an_input_posted_while_outputs_are_performed_waits_for_them() {
        let mut pump = Pump::new(Echo::default());
        pump.post(2);
        let mut performed = 0;
        while let Some(output) = pump.next(Time::ZERO) {
            performed += 1;
            if output == 2 && performed == 1 {
                pump.post(1);
            }
        }
        assert_eq!(pump.machine().log, ["in 2", "out 2", "out 2", "in 1", "out 1"]);
        pump.handle_timeout(Time::ZERO);
        assert_eq!((pump.next(Time::ZERO), pump.next(Time::ZERO)), (Some(0), None));
    }

    /// Keeps what it sees as text.
    struct Witness(Rc<RefCell<Vec<String>>>);

    impl Observer<Echo> for Witness {
        fn before(&mut self, machine: &Echo, _: Time, step: Step<'_, u32>) {
            self.0.borrow_mut().push(format!("{step:?} after {}", machine.log.len()));
        }

        fn output(&mut self, output: &u32) {
            self.0.borrow_mut().push(format!("out {output}"));
        }
    }

    #[test]
    fn an_observer_sees_each_step_before_the_machine_and_each_output() {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let mut pump = Pump::new(Echo::default()).observed(Witness(Rc::clone(&seen)));
        pump.post(1);
        while pump.next(Time::ZERO).is_some() {}
        pump.handle_timeout(Time::ZERO);
        while pump.next(Time::ZERO).is_some() {}
        pump.end_turn(Time::ZERO);
        let expected =
            ["Input(1) after 0", "out 1", "Timeout after 2", "out 0", "EndOfTurn after 3"];
        assert_eq!(*seen.borrow(), expected);
    }
}
