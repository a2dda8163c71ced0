//! The plan as a driver for Ray.

use super::{Plan, exported_tasks};

const DRIVER: &str = include_str!("ray_driver.py");

/// Writes the plan as a Python program.
pub(super) fn driver(plan: &Plan) -> String {
    let tasks = serde_json::to_string(&exported_tasks(plan)).unwrap_or_default();
    DRIVER.replace("\"PLAN_TASKS\"", &tasks.replace("},\"", "},\n    \""))
}
