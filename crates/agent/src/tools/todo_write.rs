//! The `todo_write` tool: replaces the to-do list.
//!
//! Start at [`TodoWrite`]. The list is stored only in its event.

use futures_util::future::BoxFuture;
use recount_event::Payload;
use recount_event::family::tool::{Todo, TodoStatus, TodoWriteUpdated};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tool::{Assessment, Job, Outcome, Tool};
use crate::tools::ending::{CallFailure, completed, counted};
use crate::tools::input;
use crate::tools::limits;

pub(crate) struct TodoWrite;

#[derive(Deserialize)]
struct TodoWriteInput {
    todos: Vec<Todo>,
}

impl Tool for TodoWrite {
    fn name(&self) -> &'static str {
        "todo_write"
    }

    fn kind(&self) -> &'static str {
        "todo"
    }

    fn description(&self) -> &'static str {
        "Replaces the to-do list that the user sees. Send the whole list every time, in order. Mark at most \
         one item as in_progress, and mark items as completed as soon as they are done."
    }

    fn schema(&self) -> Value {
        let statuses: Vec<_> = TodoStatus::ALL.iter().map(|status| status.as_str()).collect();
        json!({
            "type": "object",
            "properties": {
                "todos": {
                    "type": "array", "maxItems": limits::TODOS_MAX,
                    "items": {
                        "type": "object",
                        "properties": {
                            "content": {
                                "type": "string", "minLength": 1, "maxLength": limits::TODO_CHARS_MAX,
                                "description": "The text of the item."
                            },
                            "status": { "type": "string", "enum": statuses }
                        },
                        "required": ["content", "status"],
                        "additionalProperties": false
                    }
                }
            },
            "required": ["todos"],
            "additionalProperties": false
        })
    }

    fn assess(&self, input: &Value) -> Assessment {
        let count = input.get("todos").and_then(Value::as_array).map_or(0, Vec::len);
        input::harmless(
            &counted(count as u64, "to-do item", "to-do items"),
            "Replace the to-do list.",
            Vec::new(),
        )
    }

    fn run<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { write(&job).unwrap_or_else(Outcome::from) })
    }
}

fn write(job: &Job<'_>) -> Result<Outcome, CallFailure> {
    let TodoWriteInput { todos } = input::read(job.input)?;
    let done = todos.iter().filter(|todo| todo.status == TodoStatus::Completed).count();
    let summary = format!("{done} of {} done", todos.len());
    let mut updated = TodoWriteUpdated::new(job.call.clone(), todos);
    updated.tool_name = Some(job.tool_name.to_owned());
    let events = vec![Payload::ToolTodoWriteUpdated(Box::new(updated)).into()];
    Ok(completed(format!("To-do list updated: {summary}."), summary, events))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::scene::Scene;

    #[tokio::test]
    async fn the_complete_list_is_reported() {
        let mut scene = Scene::new();
        let todos =
            json!([{ "content": "a", "status": "completed" }, { "content": "b", "status": "in_progress" }]);
        let outcome = scene.run("todo_write", json!({ "todos": todos })).await;
        assert_eq!(outcome.output, "To-do list updated: 1 of 2 done.");
        let expected = json!({ "tool_call_id": "call_1", "tool_name": "todo_write", "todos": todos });
        assert_eq!(scene.events(&outcome), [("tool.todo_write.updated".to_owned(), expected)]);
        let outcome = scene.run("todo_write", json!({ "todos": [] })).await;
        assert_eq!(outcome.summary, "0 of 0 done");
    }
}
