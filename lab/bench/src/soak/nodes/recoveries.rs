//! Recovery times by kind of fault. It must not know how they are measured.

use std::collections::BTreeMap;
use std::fmt;

use super::faults::NodeFault;

/// Seconds until an append was acknowledged again, by kind of fault.
#[derive(Default)]
pub(super) struct Recoveries(BTreeMap<NodeFault, Vec<f64>>);

impl Recoveries {
    pub(super) fn add(&mut self, fault: NodeFault, seconds: f64) {
        self.0.entry(fault).or_default().push(seconds);
    }
}

impl fmt::Display for Recoveries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<20} {:>6} {:>10} {:>10}", "fault", "times", "median s", "longest s")?;
        for (fault, seconds) in &self.0 {
            let mut seconds = seconds.clone();
            seconds.sort_by(f64::total_cmp);
            let (median, longest) = (seconds[seconds.len() / 2], seconds[seconds.len() - 1]);
            writeln!(f, "{:<20} {:>6} {median:>10.1} {longest:>10.1}", fault.name(), seconds.len())?;
        }
        Ok(())
    }
}
