//! What a layer does not keep in on this machine, by name.
//!
//! The names stand in `tool.shell.command`, in what `doctor` says and in `docs/sandbox.md`; what has none is kept in.
//! Look at [`Gap`]. It must never know how a layer is made.

/// Something that a command can see or reach although it is not its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// Whether a path exists, and its size, times, owner and mode.
    PathNames,
    /// Names, states and command lines of other processes.
    Processes,
    /// What the kernel tells of the whole machine in `/proc`: connections, mounts, devices.
    KernelTables,
    /// The command has the user of the server.
    ServerUser,
    /// Named pipes among what may be read can be written.
    NamedPipes,
    /// Sockets of files among what the settings let be read can be connected to.
    ReadableSockets,
    /// Everything.
    Everything,
}

impl Gap {
    /// Those of a layer on this machine. `landlock` says whether the kernel has that and it covers what may be read,
    /// `sockets` whether commands have sockets of files and are let read more than the machine's own folders.
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

    /// The name, which is never changed.
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

    /// The same for people.
    pub fn describe(self) -> &'static str {
        match self {
            Gap::PathNames => "whether a path exists, and its size, times, owner and mode, can be seen",
            Gap::Processes => "names, states and command lines of other processes can be read",
            Gap::KernelTables => "connections, mounts and devices of the machine can be read in /proc",
            Gap::ServerUser => "commands have the user of the server",
            Gap::NamedPipes => "named pipes among what may be read can be written",
            Gap::ReadableSockets => "sockets of files among what sandbox.readable names can be connected to",
            Gap::Everything => "nothing is kept in",
        }
    }
}
