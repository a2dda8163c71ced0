//! The flags that set what messages of the library mention.

use crate::base::setting::Setting;

/// The flag of a setting.
pub fn flag_of(setting: Setting) -> &'static str {
    match setting {
        Setting::Adapter => "--adapter",
        Setting::Add => "--add",
        Setting::Bits => "--bits",
        Setting::Corpus => "--corpus",
        Setting::Dictionary => "--dictionary",
        Setting::Encoding => "--encoding",
        Setting::FilterOut => "--filter-out",
        Setting::Final => "--final",
        Setting::IdField => "--id-field",
        Setting::Interleave => "--interleave",
        Setting::Log => "--log",
        Setting::LogBegin => "--log-begin",
        Setting::Lossy => "--lossy",
        Setting::MaxDf => "--max-df",
        Setting::MaxDocument => "--max-document",
        Setting::MaxRemove => "--max-remove",
        Setting::Method => "--method",
        Setting::MinTokens => "--min-tokens",
        Setting::Ocr => "--ocr",
        Setting::Output => "-o",
        Setting::PageBytes => "--max-size",
        Setting::Passages => "--passages",
        Setting::PValues => "--p-values",
        Setting::Positions => "--positions",
        Setting::Records => "--records",
        Setting::Relative => "--relative",
        Setting::Remove => "--remove",
        Setting::Scheme => "--scheme",
        Setting::Select => "--select",
        Setting::ShipBinaries => "--ship-binaries",
        Setting::Since => "--since",
        Setting::SkipBad => "--skip-bad",
        Setting::Spans => "--spans",
        Setting::TextField => "--text-field",
        Setting::Top => "--top",
        Setting::Upstream => "--upstream",
        Setting::WindowTokens => "-k",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;

    fn flags_of(command: &Command) -> Vec<String> {
        let own = command.get_arguments().flat_map(|arg| {
            let long = arg.get_long().map(|name| format!("--{name}"));
            let short = arg.get_short().map(|name| format!("-{name}"));
            long.into_iter().chain(short)
        });
        own.chain(command.get_subcommands().flat_map(flags_of))
            .collect()
    }

    #[test]
    fn messages_name_flags_that_exist() {
        let known: Vec<String> = crate::cli::commands().iter().flat_map(flags_of).collect();
        for &setting in Setting::ALL {
            let flag = flag_of(setting);
            assert!(known.iter().any(|known| known == flag), "{flag}");
        }
    }
}
