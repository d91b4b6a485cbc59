//! Recovery times by kind of fault. It must not know how they are measured.

use std::collections::BTreeMap;
use std::fmt;

use super::faults::NodeFault;

/// Seconds until an append was acknowledged again, by kind of fault, and by how it concerned a tenant if there are several.
#[derive(Default)]
pub(super) struct Recoveries(BTreeMap<(NodeFault, &'static str), Vec<f64>>);

impl Recoveries {
    pub(super) fn add(&mut self, fault: NodeFault, role: &'static str, seconds: f64) {
        self.0.entry((fault, role)).or_default().push(seconds);
    }
}

impl fmt::Display for Recoveries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = if self.0.keys().all(|(_, role)| role.is_empty()) { 20 } else { 42 };
        writeln!(f, "{:<width$} {:>6} {:>10} {:>10}", "fault", "times", "median s", "longest s")?;
        for ((fault, role), seconds) in &self.0 {
            let mut seconds = seconds.clone();
            seconds.sort_by(f64::total_cmp);
            let (median, longest) = (seconds[seconds.len() / 2], seconds[seconds.len() - 1]);
            let separator = if role.is_empty() { "" } else { ": " };
            let name = format!("{}{separator}{role}", fault.name());
            writeln!(f, "{name:<width$} {:>6} {median:>10.1} {longest:>10.1}", seconds.len())?;
        }
        Ok(())
    }
}
