//! Configuration of the face for accessibility tools (AAEP): how many may subscribe, and its rooms.
//!
//! It must not know the replies of the face. See [`Aaep`].

use super::rooms::Rooms;

/// The checked settings of the face.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aaep {
    /// Subscriptions at a time, of all tenants.
    pub subscriptions_max: usize,
    pub rooms: Rooms,
}

impl Aaep {
    /// Without a further address and without an agent: for a part of a server that has another one.
    pub(crate) fn without_room(self) -> Self {
        Aaep { rooms: Rooms { access: self.rooms.access, ..Rooms::default() }, ..self }
    }
}

impl Default for Aaep {
    fn default() -> Self {
        Aaep { subscriptions_max: recount_face_aaep::limits::SUBSCRIPTIONS_MAX, rooms: Rooms::default() }
    }
}
