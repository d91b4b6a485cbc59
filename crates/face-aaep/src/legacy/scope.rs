//! Resolves the name of a room to a set of runs. Pure.

use recount_engine::{Caller, Narrowing};
use recount_event::{RunId, SessionId, TaskId};

/// The name of the room that has every run that the caller may see.
const ALL: &str = "all";

/// The runs of a room for one caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RoomScope {
    /// The one run of the room; `None`: all that the narrowing admits.
    pub(crate) run: Option<RunId>,
    pub(crate) narrowing: Narrowing,
}

impl RoomScope {
    /// The scope of a room: `all`, the id of a run, a task or a session, or the room of an agent, which is given with
    /// its session. `None` if there is no such room, or none for this caller.
    pub(crate) fn of(name: &str, agent: Option<(&str, SessionId)>, caller: &Caller) -> Option<RoomScope> {
        let own = &caller.narrowing;
        let whole = |run| Some(RoomScope { run, narrowing: own.clone() });
        if name == ALL {
            return whole(None);
        }
        if let Ok(run) = name.parse::<RunId>() {
            return whole(Some(run));
        }
        if let Ok(task) = name.parse::<TaskId>() {
            let narrowing = Narrowing { tasks: [task].into(), ..Narrowing::default() };
            return (own.is_none() || own.tasks.contains(&task))
                .then_some(RoomScope { run: None, narrowing });
        }
        let of_agent = agent.filter(|(room, _)| *room == name).map(|(_, session)| session);
        let session = of_agent.or_else(|| name.parse().ok())?;
        let narrowing = Narrowing { sessions: [session].into(), ..Narrowing::default() };
        (own.is_none() || own.sessions.contains(&session)).then_some(RoomScope { run: None, narrowing })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_has_the_runs_that_its_name_selects_and_the_caller_may_see() {
        let operator = Caller::operator();
        let task: TaskId = "task_01JZZZZZZZZZZZZZZZZZZZZZZZ".parse().unwrap();
        let other: TaskId = "task_01JYYYYYYYYYYYYYYYYYYYYYYY".parse().unwrap();
        let session: SessionId = "chat_01JZZZZZZZZZZZZZZZZZZZZZZZ".parse().unwrap();
        let run = "run_01HZX3Q0M0000000000000000A";
        let of = |name: &str, caller: &Caller| RoomScope::of(name, Some(("demo", session)), caller);
        assert_eq!(of("all", &operator), Some(RoomScope { run: None, narrowing: Narrowing::default() }));
        assert_eq!(of(run, &operator).unwrap().run, Some(run.parse().unwrap()));
        let of_task = Narrowing { tasks: [task].into(), ..Narrowing::default() };
        assert_eq!(of(&task.to_string(), &operator).unwrap().narrowing, of_task);
        let of_session = Narrowing { sessions: [session].into(), ..Narrowing::default() };
        for name in ["demo", &session.to_string()] {
            assert_eq!(of(name, &operator), Some(RoomScope { run: None, narrowing: of_session.clone() }));
        }
        for name in ["", "demo2", "task_1", "run_1"] {
            assert_eq!(of(name, &operator), None, "{name}");
        }
        let mut narrow = operator;
        narrow.narrowing = Narrowing { tasks: [other].into(), ..Narrowing::default() };
        assert_eq!((of("demo", &narrow), of(&task.to_string(), &narrow)), (None, None));
        assert_eq!(of("all", &narrow).unwrap().narrowing, narrow.narrowing);
        assert_eq!(of(&other.to_string(), &narrow).unwrap().narrowing, narrow.narrowing);
    }
}
