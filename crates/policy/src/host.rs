//! Rules about the hosts that commands reach: their patterns, and the decision on a host and on its addresses. Not here:
//! finding out the addresses, and connecting (host::network_proxy).

use std::fmt;
use std::net::IpAddr;

use serde::Serialize;

use super::decision::PolicyDecision;
use super::policy_file::PolicyRules;
use super::rule::PolicyRule;
use punie_core::tool_effect::ToolEffect;

/// The longest host name, as DNS has it, with room for a dot at its end.
const MAX_NAME: usize = 255;

/// A host as a command names it: a name in small letters, or an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HostName {
    /// A name.
    Name(String),
    /// An address; never an IPv4 address in an IPv6 one.
    Address(IpAddr),
}

impl HostName {
    /// Reads a host; `None` for what is none.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_NAME {
            return None;
        }
        let bare = text
            .strip_prefix('[')
            .map_or(Some(text), |rest| rest.strip_suffix(']'))?;
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Some(Self::Address(address.to_canonical()));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        let is_label = |label: &str| {
            let sign = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            !label.is_empty() && label.len() <= 63 && label.chars().all(sign)
        };
        name.split('.')
            .all(is_label)
            .then(|| Self::Name(name.to_ascii_lowercase()))
    }

    /// Returns whether it names this machine's loopback, by its name alone.
    pub fn is_localhost(&self) -> bool {
        match self {
            Self::Name(name) => name == "localhost" || name.ends_with(".localhost"),
            Self::Address(address) => address.is_loopback(),
        }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

/// A pattern of hosts.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct HostPattern {
    /// As it was written.
    pub text: String,
    #[serde(skip)]
    kind: HostPatternKind,
    #[serde(skip)]
    port: Option<u16>,
}

#[derive(Debug, Clone)]
enum HostPatternKind {
    /// Every host, but for addresses that need a rule of their own.
    Any,
    /// This name.
    Name(String),
    /// The names that end with this, which begins with a dot.
    Below(String),
    /// The addresses that share so many bits with this one.
    Network(IpAddr, u8),
}

impl HostPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// The fault in it.
    pub fn new(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "the host {text:?} is no pattern; write a name (\"pypi.org\"), all names below one (\"*.pypi.org\"), an \
                 address (\"10.0.0.5\") or a network (\"10.0.0.0/8\"), with a port behind it if only that is meant \
                 (\"pypi.org:443\")"
            )
        };
        let (host, port) = split_port(text).ok_or_else(wrong)?;
        let kind = if host == "*" {
            HostPatternKind::Any
        } else if let Some(below) = host.strip_prefix("*.") {
            match HostName::parse(below) {
                Some(HostName::Name(name)) => HostPatternKind::Below(format!(".{name}")),
                _ => return Err(wrong()),
            }
        } else if let Some((address, bits)) = host.split_once('/') {
            let address: IpAddr = address.parse().map_err(|_| wrong())?;
            let most = if address.is_ipv4() { 32 } else { 128 };
            let bits = bits.parse().ok().filter(|bits| *bits <= most);
            HostPatternKind::Network(address, bits.ok_or_else(wrong)?)
        } else {
            match HostName::parse(host).ok_or_else(wrong)? {
                HostName::Name(name) => HostPatternKind::Name(name),
                HostName::Address(address) => {
                    let bits = if address.is_ipv4() { 32 } else { 128 };
                    HostPatternKind::Network(address, bits)
                }
            }
        };
        Ok(Self {
            text: text.to_owned(),
            kind,
            port,
        })
    }

    fn matches(&self, host: &HostName, port: u16) -> bool {
        let fits = match (&self.kind, host) {
            (HostPatternKind::Any, _) => true,
            (HostPatternKind::Name(wanted), HostName::Name(name)) => wanted == name,
            (HostPatternKind::Below(end), HostName::Name(name)) => {
                name.len() > end.len() && name.ends_with(end.as_str())
            }
            (HostPatternKind::Network(..), HostName::Address(address)) => {
                return self.matches_address(*address, port);
            }
            _ => false,
        };
        fits && self.port.is_none_or(|wanted| wanted == port)
    }

    /// Returns whether it is an address or a network that holds this address.
    fn matches_address(&self, address: IpAddr, port: u16) -> bool {
        let HostPatternKind::Network(network, bits) = &self.kind else {
            return false;
        };
        let shared = match (network, address) {
            (IpAddr::V4(one), IpAddr::V4(two)) => {
                (one.to_bits() ^ two.to_bits()).leading_zeros() >= u32::from(*bits)
            }
            (IpAddr::V6(one), IpAddr::V6(two)) => {
                (one.to_bits() ^ two.to_bits()).leading_zeros() >= u32::from(*bits)
            }
            _ => false,
        };
        shared && self.port.is_none_or(|wanted| wanted == port)
    }
}

/// Splits a port off the end of a host: `[::1]:80`, `a.org:80`, `10.0.0.0/8:80`.
fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    // An IPv6 address without brackets has no port.
    let is_bare_v6 = !text.starts_with('[') && text.matches(':').count() > 1;
    match text.rsplit_once(':') {
        Some((host, port)) if !is_bare_v6 && !port.ends_with(']') => {
            let port = port.parse().ok().filter(|port| *port != 0)?;
            Some((host, Some(port)))
        }
        _ => Some((text, None)),
    }
}

/// The decision of the rules on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostVerdict {
    /// The decision.
    pub decision: PolicyDecision,
    /// The rule that decides; `None` for the default.
    pub rule: Option<String>,
    /// The reason, in the owner's words.
    pub reason: Option<String>,
}

impl HostVerdict {
    fn by_rule(rule: &PolicyRule) -> Self {
        Self {
            decision: rule.decision,
            rule: Some(rule.name.clone()),
            reason: rule.reason.clone(),
        }
    }

    /// Describes the rule that decides, as a part of a sentence.
    pub fn explain_cause(&self) -> String {
        let verb = match self.decision {
            PolicyDecision::Allow => "allows",
            PolicyDecision::Ask => "asks about",
            PolicyDecision::Deny => "denies",
        };
        let why = self
            .reason
            .as_ref()
            .map_or_else(String::new, |reason| format!(" ({reason})"));
        match &self.rule {
            Some(rule) => format!("the owner's rule {rule:?} {verb} it{why}"),
            None => format!("no rule names it, and the policy's default {verb} it"),
        }
    }
}

impl PolicyRules {
    /// Decides on a host that a command of this tool wants to reach. The strictest rule that names it wins; a host that
    /// no rule names is a question, unless the default denies.
    pub fn judge_host(&self, tool: &str, host: &HostName, port: u16) -> HostVerdict {
        let named = self.strictest_for_host(tool, |pattern| pattern.matches(host, port));
        named.unwrap_or(HostVerdict {
            decision: self.default.max(PolicyDecision::Ask),
            rule: None,
            reason: None,
        })
    }

    /// Decides on an address by the rules that name it or its network; `None` if there are none.
    pub fn judge_address(&self, tool: &str, address: IpAddr, port: u16) -> Option<HostVerdict> {
        self.strictest_for_host(tool, |pattern| pattern.matches_address(address, port))
    }

    fn strictest_for_host(
        &self,
        tool: &str,
        matches: impl Fn(&HostPattern) -> bool,
    ) -> Option<HostVerdict> {
        let rules = self.rules.iter();
        let named = rules
            .filter(|rule| rule.applies_to_tool(tool, ToolEffect::Executes))
            .filter(|rule| rule.hosts.iter().any(&matches));
        named
            .max_by_key(|rule| rule.decision)
            .map(HostVerdict::by_rule)
    }
}

/// Returns whether a rule's hosts match an example: a host, with or without a port.
pub(super) fn matches_example(rule: &PolicyRule, example: &str) -> bool {
    let Some((host, port)) = split_port(example) else {
        return false;
    };
    let Some(host) = HostName::parse(host) else {
        return false;
    };
    let port = port.unwrap_or(443);
    rule.hosts
        .iter()
        .any(|pattern| pattern.matches(&host, port))
}

#[cfg(test)]
mod tests {
    use super::PolicyDecision::{Allow, Ask, Deny};
    use super::*;

    fn rules(text: &str) -> PolicyRules {
        PolicyRules::parse(text, &|_| true).expect("rules")
    }

    fn decision(rules: &PolicyRules, host: &str, port: u16) -> PolicyDecision {
        let host = HostName::parse(host).expect("a host");
        rules.judge_host("Bash", &host, port).decision
    }

    #[test]
    fn the_strictest_rule_that_names_a_host_decides() {
        let rules = rules(
            r#"
            [[rule]]
            name = "packages"
            decision = "allow"
            hosts = ["registry.npmjs.org", "*.pypi.org", "10.0.0.0/8:5432", "a.org:443"]
            match = ["registry.npmjs.org", "files.pypi.org:443", "10.1.2.3:5432"]
            no_match = ["pypi.org", "10.1.2.3:80", "a.org:80"]
            [[rule]]
            name = "uploads"
            decision = "deny"
            hosts = ["upload.pypi.org"]
            [[rule]]
            name = "other tools"
            decision = "deny"
            tools = ["SkillBash"]
            hosts = ["*"]
            "#
            .replace("other tools", "other-tools")
            .as_str(),
        );
        for (host, port, expected) in [
            ("registry.npmjs.org", 443, Allow),
            ("REGISTRY.npmjs.org.", 80, Allow),
            ("files.pypi.org", 443, Allow),
            ("pypi.org", 443, Ask),
            ("xpypi.org", 443, Ask),
            ("upload.pypi.org", 443, Deny),
            ("10.9.9.9", 5432, Allow),
            ("::ffff:10.9.9.9", 5432, Allow),
            ("10.9.9.9", 5433, Ask),
            ("example.com", 443, Ask),
        ] {
            assert_eq!(decision(&rules, host, port), expected, "{host}:{port}");
        }
        let skill = rules.judge_host("SkillBash", &HostName::parse("a.org").expect("one"), 443);
        assert_eq!(skill.decision, Deny);
        // A name names no address.
        let address = IpAddr::from([10, 0, 0, 1]);
        assert!(rules.judge_address("Bash", address, 80).is_none());
        assert!(rules.judge_address("Bash", address, 5432).is_some());
    }

    #[test]
    fn the_default_denies_or_asks_and_never_allows() {
        for (default, expected) in [
            ("allow", PolicyDecision::Ask),
            ("ask", PolicyDecision::Ask),
            ("deny", PolicyDecision::Deny),
        ] {
            let rules = rules(&format!("default = {default:?}"));
            assert_eq!(decision(&rules, "a.org", 443), expected);
        }
    }

    #[test]
    fn a_rule_about_hosts_says_nothing_about_calls() {
        let rules = rules("[[rule]]\nname = \"a\"\ndecision = \"deny\"\nhosts = [\"a.org\"]");
        let call = crate::PolicyCall {
            tool: "Bash".to_owned(),
            ..crate::PolicyCall::default()
        };
        let verdict = crate::judge_call(&rules, false, &call, &[]);
        assert_eq!(verdict.decision, PolicyDecision::Allow);
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in [
            "",
            "a..b",
            "a b",
            "http://a.org",
            "a.org/x",
            "[::1",
            "a\u{e4}.org",
            "*",
            &"a".repeat(64),
            &"a.".repeat(128),
        ] {
            assert_eq!(HostName::parse(text), None, "{text}");
        }
        for text in [
            "*a.org",
            "a.*",
            "10.0.0.0/33",
            "a.org:0",
            "a.org:99999",
            "http://a.org",
            "",
        ] {
            assert!(HostPattern::new(text).is_err(), "{text}");
        }
        for text in ["::1", "[::1]", "[::1]:80", "fe80::/10", "*", "*.a.org:8080"] {
            assert!(HostPattern::new(text).is_ok(), "{text}");
        }
    }
}
