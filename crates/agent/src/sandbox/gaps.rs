//! Names what a layer does not isolate on this machine.
//!
//! The names appear in `tool.shell.command`, in the output of `doctor` and in `docs/sandbox.md`. Start at [`Gap`]. The
//! module must not depend on how layers are implemented.

/// Something outside the sandbox that a command can see or reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// Whether a path exists, its size, times, owner, mode and extended attributes, and the target of a link.
    PathNames,
    /// Names, states and command lines of other processes.
    Processes,
    /// Information about the whole machine in `/proc`: connections, mounts, devices; for root also keys, timers and memory.
    KernelTables,
    /// The command runs as the server's user.
    ServerUser,
    /// Named pipes in readable folders can be written.
    NamedPipes,
    /// Commands can connect to Unix sockets in folders of `sandbox.readable`.
    ReadableSockets,
    /// Nothing is isolated.
    Everything,
}

impl Gap {
    /// The gaps of a layer on this machine. `landlock`: the kernel has Landlock and it covers all readable folders.
    /// `sockets`: commands may use Unix sockets and can read additional folders.
    pub(super) fn of(layer: super::Layer, landlock: bool, sockets: bool) -> Vec<Gap> {
        match layer {
            super::Layer::Bwrap => {
                let pipes = (!landlock).then_some(Gap::NamedPipes);
                pipes.into_iter().chain(sockets.then_some(Gap::ReadableSockets)).collect()
            }
            super::Layer::Landlock => {
                vec![Gap::PathNames, Gap::Processes, Gap::KernelTables, Gap::ServerUser]
            }
            super::Layer::Off => vec![Gap::Everything],
        }
    }

    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Gap::PathNames => "path_names",
            Gap::Processes => "process_list",
            Gap::KernelTables => "kernel_tables",
            Gap::ServerUser => "server_user",
            Gap::NamedPipes => "named_pipes",
            Gap::ReadableSockets => "readable_sockets",
            Gap::Everything => "everything",
        }
    }

    /// A description for a person.
    pub fn describe(self) -> &'static str {
        match self {
            Gap::PathNames => {
                "existence, size, times, owner, mode and extended attributes of all paths and targets of links are visible"
            }
            Gap::Processes => "names, states and command lines of other processes are readable",
            Gap::KernelTables => {
                "connections, mounts and devices of the machine are readable in /proc, for root also names of keys, timers and memory maps"
            }
            Gap::ServerUser => "commands run as the server's user",
            Gap::NamedPipes => "named pipes in readable folders are writable",
            Gap::ReadableSockets => "commands can connect to sockets in folders of sandbox.readable",
            Gap::Everything => "nothing is isolated",
        }
    }
}
