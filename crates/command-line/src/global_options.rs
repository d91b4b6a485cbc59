//! Describes the global options of a program once: in the help of the program, while the help of a verb only names them.
//!
//! It must not know programs or their options. Start at [`describe_once`].

use clap::{Arg, Command};

/// Hides the global options in the help of each verb, which ends with a line that names them. Every verb accepts them.
pub fn describe_once(command: Command) -> Command {
    let global = command.get_arguments().filter(|option| option.is_global_set());
    let hidden: Vec<Arg> = global.map(|option| option.clone().hide(true)).collect();
    let names: Vec<String> =
        hidden.iter().filter_map(Arg::get_long).map(|name| format!("--{name}")).collect();
    let pointer = format!("Global options: {} (see {} help)", names.join(", "), command.get_name());
    command.mut_subcommands(|verb| with_pointer(verb.args(&hidden), &pointer))
}

/// Ends the help of a verb, and of those below it, with a line.
fn with_pointer(verb: Command, pointer: &str) -> Command {
    let help = match verb.get_after_help() {
        Some(own) => format!("{own}\n\n{pointer}"),
        None => pointer.to_owned(),
    };
    verb.after_help(help).mut_subcommands(|verb| with_pointer(verb, pointer))
}
