//! Lists, measures and kills all descendants of a process.
//!
//! The warden adopts orphans, so everything that a command started is below it. The data comes from `/proc` and may be
//! outdated when it is read, so a caller polls again before it acts on it. Start at [`Tree::below`].

use std::fs;

use rustix::process::{Pid, Signal};

use crate::sandbox::limits;

/// One process below the warden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) pid: Pid,
    /// 1 for children of the warden.
    pub(crate) depth: usize,
}

/// All descendants of a process, parents before children.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) members: Vec<Member>,
}

/// Resource usage of a tree.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TreeUsage {
    pub(crate) threads: u64,
    pub(crate) memory_bytes: u64,
}

impl Tree {
    /// Lists the descendants once, up to about `most`: enough to see that there are too many.
    pub(crate) fn below(root: Pid, most: usize) -> Tree {
        Tree::walk(root, most, |_| {})
    }

    /// Kills all descendants. Each is stopped when it is found, so that it starts no processes during the search. The
    /// next round finds those started before.
    pub(crate) fn kill(root: Pid) {
        let tree = Tree::walk(root, limits::TREE_MEMBERS_MAX, |member| {
            rustix::process::kill_process(member.pid, Signal::STOP).ok();
        });
        tree.signal(1, Signal::KILL);
    }

    fn walk(root: Pid, most: usize, mut visit: impl FnMut(&Member)) -> Tree {
        let mut tree = Tree::default();
        children(root, 1, &mut tree.members);
        let mut next = 0;
        while next < tree.members.len() && next < most {
            let member = tree.members[next];
            visit(&member);
            children(member.pid, member.depth + 1, &mut tree.members);
            next += 1;
        }
        tree
    }

    pub(crate) fn count(&self, depth_min: usize) -> usize {
        self.members.iter().filter(|member| member.depth >= depth_min).count()
    }

    /// Usage of the processes at this depth or deeper.
    pub(crate) fn usage(&self, depth_min: usize) -> TreeUsage {
        let mut usage = TreeUsage::default();
        for member in self.members.iter().filter(|member| member.depth >= depth_min) {
            let Ok(status) = fs::read_to_string(format!("/proc/{}/status", member.pid.as_raw_nonzero()))
            else {
                continue;
            };
            usage.threads += field(&status, "Threads:").unwrap_or(1);
            // Pages of files do not count. Shared memory counts for each process.
            let kilobytes =
                ["RssAnon:", "RssShmem:", "VmSwap:"].map(|name| field(&status, name).unwrap_or(0));
            usage.memory_bytes += kilobytes.iter().sum::<u64>() << 10;
        }
        usage
    }

    pub(crate) fn signal(&self, depth_min: usize, signal: Signal) {
        for member in self.members.iter().filter(|member| member.depth >= depth_min) {
            // The process may have ended already.
            rustix::process::kill_process(member.pid, signal).ok();
        }
    }
}

fn children(pid: Pid, depth: usize, into: &mut Vec<Member>) {
    let pid = pid.as_raw_nonzero();
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return };
    for thread in threads.flatten() {
        let Ok(list) = fs::read_to_string(thread.path().join("children")) else { continue };
        let pids =
            list.split_ascii_whitespace().filter_map(|word| word.parse().ok()).filter_map(Pid::from_raw);
        into.extend(pids.map(|pid| Member { pid, depth }));
    }
}

/// A number of `/proc/PID/status`.
fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let status = "Name:\tx\nThreads:\t3\nRssAnon:\t    12 kB\n";
        assert_eq!(field(status, "Threads:"), Some(3));
        assert_eq!(field(status, "RssAnon:"), Some(12));
        assert_eq!(field(status, "VmSwap:"), None);
    }
}
