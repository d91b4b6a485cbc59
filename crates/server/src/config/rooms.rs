//! Configuration of the rooms of the accessibility face: who may reach them, and whether one has an agent.
//!
//! Look at [`Rooms`]. It must never know what is said in a room.

/// Who may reach `/aaep/legacy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RoomAccess {
    /// Clients on this machine.
    #[default]
    Loopback,
    /// Everyone who may use the server.
    Everywhere,
    Off,
}

/// What was settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rooms {
    pub access: RoomAccess,
    /// Whether the room `conformance` has an agent that plays scripts.
    pub agent: bool,
    /// Whether the id of each session comes before it.
    pub announces_sessions: bool,
}
