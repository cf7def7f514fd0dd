//! A setting with at most one value. A second setting with the same value has no effect. A
//! different value is an error, because otherwise one of the two would be ignored without a
//! message.

use crate::scan::Setting;
use crate::usage::Usage;

/// A value and the option that gave it.
#[derive(Clone, Debug)]
pub struct Once<T>(Option<(T, String)>);

impl<T: PartialEq> Once<T> {
    /// Sets the value of `setting`.
    pub fn set(&mut self, value: T, setting: &Setting) -> Result<(), Usage> {
        match &self.0 {
            Some((old, by)) if *old != value => {
                Err(Usage::syntax(format!("{by} and {setting} contradict each other")))
            }
            _ => {
                self.0 = Some((value, setting.to_string()));
                Ok(())
            }
        }
    }
}

impl<T> Once<T> {
    /// The value, if there is one.
    pub fn get(&self) -> Option<&T> {
        self.0.as_ref().map(|(value, _)| value)
    }

    /// The value, if there is one, for a change.
    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        self.0.as_mut().map(|(value, _)| value)
    }

    /// The option that gave the value.
    pub fn by(&self) -> &str {
        self.0.as_ref().map_or("", |(_, by)| by)
    }

    /// The effective setting of a section: `self` of the section, else the global `defaults`.
    pub fn or<'a>(&'a self, defaults: &'a Self) -> &'a Self {
        if self.0.is_some() { self } else { defaults }
    }
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: PartialEq> PartialEq for Once<T> {
    /// Compares only the values, not the options that gave them.
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for Once<T> {}
