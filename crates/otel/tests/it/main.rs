//! Integration tests of the export: the projection over stories and random runs, and followers that send to a real HTTP
//! server, which reads the protobuf with the messages of opentelemetry-proto.

#![allow(clippy::unwrap_used, reason = "tests")]

mod export;
mod logs;
mod metrics_push;
mod properties;
mod receiver;
mod scene;
mod stories;
