//! `GET /meta`: the configured agents, encoded once.

use ::http::StatusCode;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use recount_engine::{self as engine, Profile, Profiles};

use super::FaceState;
use super::http::json_bytes;
use crate::wire::{
    AgentInfo, AgentOption, ApplicationCapability, Capabilities, HistoryCapability, ImageCapability,
    MetaResponse, OptionKind, Present, StreamCapability, ToolSpec, WorkspaceCapability,
};

pub(super) async fn get_meta(State(places): State<FaceState>) -> Response {
    json_bytes(StatusCode::OK, places.meta)
}

pub(super) fn written(profiles: &Profiles) -> Bytes {
    let meta = MetaResponse::of(profiles.iter().map(agent).collect());
    serde_json::to_vec(&meta).expect("agents hold only values that JSON can represent").into()
}

fn agent(profile: &Profile) -> AgentInfo {
    let tools: Vec<ToolSpec> = profile.tools.iter().map(tool).collect();
    let options: Vec<AgentOption> = profile.options.iter().map(option).collect();
    AgentInfo {
        name: profile.name.clone(),
        title: profile.title.clone(),
        version: profile.version.clone(),
        description: profile.description.clone(),
        tools: Some(tools).filter(|tools| !tools.is_empty()),
        options: Some(options).filter(|options| !options.is_empty()),
        capabilities: Some(capabilities(profile)),
    }
}

fn tool(tool: &engine::ToolInfo) -> ToolSpec {
    ToolSpec {
        name: tool.name.clone(),
        title: tool.title.clone(),
        description: tool.description.clone(),
        parameters: tool.parameters.clone(),
    }
}

fn option(option: &engine::AgentOption) -> AgentOption {
    let (kind, default) = match &option.kind {
        engine::OptionKind::Text => (OptionKind::Text, option.default.clone()),
        // Only the existence of the default of a secret option is shown.
        engine::OptionKind::Secret => (OptionKind::Secret, String::new()),
        engine::OptionKind::Select(options) => {
            (OptionKind::Select { options: options.clone() }, option.default.clone())
        }
    };
    AgentOption {
        kind,
        name: option.name.clone(),
        title: option.title.clone(),
        description: option.description.clone(),
        default,
    }
}

/// Every agent supports all modes.
fn capabilities(profile: &Profile) -> Capabilities {
    let can = profile.capabilities;
    let yes = Some(Present {});
    let history = HistoryCapability {
        compacted: Present::when(can.history_compacted),
        full: Present::when(can.history_full),
    };
    let image =
        ImageCapability { http: Present::when(can.images_http), data: Present::when(can.images_data) };
    Capabilities {
        history: Some(history).filter(|history| *history != HistoryCapability::default()),
        stream: Some(StreamCapability { delta: yes, message: yes, none: yes }),
        application: can.client_tools.then_some(ApplicationCapability { tools: yes }),
        image: Some(image).filter(|image| *image != ImageCapability::default()),
        workspace: Some(WorkspaceCapability { own: Present::when(profile.workspace_source.is_some()) }),
    }
}
