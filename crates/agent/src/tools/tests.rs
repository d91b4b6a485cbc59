//! The registry.

use super::*;

#[test]
fn an_unknown_tool_is_told_the_nearest() {
    let tools = Tools::standard();
    let told = tools.get("readFile").err().unwrap().to_string();
    assert!(told.starts_with("there is no tool `readFile`, did you mean `read_file`?; there are "), "{told}");
    assert!(tools.get(&"x".repeat(1_000_000)).err().unwrap().to_string().len() < 1_000);
    let told = UnknownTool::among("globs", ["glob", "weather"]).to_string();
    assert_eq!(told, "there is no tool `globs`, did you mean `glob`?; there are glob, weather");
    assert_eq!(UnknownTool::among("x", []).to_string(), "there is no tool `x`; there are none");
    let specs = tools.specs(&["read_file"]).unwrap();
    assert_eq!(specs[0].name, "read_file");
    assert!(tools.specs(&["read_file", "none"]).is_err());
}
