//! Whole conversations over HTTP: the face, a real engine on a store in memory, a real agent, and a model that plays a
//! script. Each test names the requirements that it shows.

mod calls;
mod counted;
mod course;
mod history;
mod latest;
mod originals;
mod secrets;
mod sessions;
mod stage;
mod stream;
mod trust;
mod workspaces;
