//! Figures of this process from the operating system, on systems that report them as Linux does.

use recount_world::platform::processor_time;

use super::text::MetricsPage;
use crate::Files;

pub(super) fn write_to(page: &mut MetricsPage, started_ms: u64) {
    let (bytes, seconds) = (Some("bytes"), Some("seconds"));
    page.gauge(
        "process_start_time_seconds",
        seconds,
        "When the server started, in seconds since 1970.",
        started_ms as f64 / 1e3,
    );
    if let Some(used) = processor_time() {
        page.family("process_cpu_seconds", super::Kind::Counter, seconds, "Processor time used.");
        page.sample("_total", &[], used.as_secs_f64());
    }
    if let Some(memory) = memory() {
        page.gauge(
            "process_resident_memory_bytes",
            bytes,
            "Memory in use, including mapped files.",
            memory.resident,
        );
        page.gauge(
            "process_anonymous_memory_bytes",
            bytes,
            "Memory in use, without files.",
            memory.anonymous,
        );
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        // One of them is the directory that is being read.
        page.gauge(
            "process_open_fds",
            None,
            "Open files and sockets.",
            open.count().saturating_sub(1) as f64,
        );
    }
    if let Some(soft) = Files::now().soft {
        page.gauge("process_max_fds", None, "The limit of open files and sockets.", soft as f64);
    }
}

struct Memory {
    resident: f64,
    anonymous: f64,
}

fn memory() -> Option<Memory> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = |name: &str| -> Option<f64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    Some(Memory { resident: kib("VmRSS:")? * 1024.0, anonymous: kib("RssAnon:")? * 1024.0 })
}
