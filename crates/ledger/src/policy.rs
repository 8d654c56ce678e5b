//! Agreement policies (section 4.6.1 of the dissertation, Algorithm 2): which organizations have to agree to a transaction that
//! writes a shared table, before it may be ordered.
//!
//! ```text
//! CREATE SHARED TABLE trades (...) WITH (agreement = 'seller, buyer')        both of them
//!                                  WITH (agreement = 'all')                  every organization
//!                                  WITH (agreement = 'any 2')                any two organizations
//!                                  WITH (agreement = 'any 1 of ada, bob')    one of these
//! ```
//! The policy is a part of the definition, so all members have the same one, and the state that they certify has it in it.

use crate::error::{LedgerError, LedgerResult};
use crate::genesis::Genesis;
use std::collections::BTreeSet;
use std::fmt;

/// The organizations that have to agree to the transactions which write a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgreementPolicy {
    /// How many of them; all of them where nothing is said.
    any: Option<usize>,
    /// Their names; every organization where there is none.
    organizations: Vec<String>,
}

impl AgreementPolicy {
    /// Reads `all`, `any 2`, `ada, bob` or `any 1 of ada, bob`.
    ///
    /// # Errors
    /// [`LedgerError::Refused`] with the forms that there are.
    pub fn parse(text: &str) -> LedgerResult<AgreementPolicy> {
        let words = text.replace(',', " , ");
        let words: Vec<&str> = words.split_whitespace().collect();
        let forms = "'all', 'any 2', 'ada, bob' and 'any 1 of ada, bob' are the forms of an agreement";
        let wrong = || LedgerError::Refused(format!("agreement '{text}': {forms}"));
        let number = |word: &str| word.parse().ok().filter(|count| *count > 0).ok_or_else(wrong);
        let (any, rest) = match &words[..] {
            ["all"] => return Ok(AgreementPolicy { any: None, organizations: Vec::new() }),
            ["any", count] => {
                return Ok(AgreementPolicy { any: Some(number(count)?), organizations: Vec::new() });
            }
            ["any", count, "of", rest @ ..] => (Some(number(count)?), rest),
            ["any" | "all", ..] => return Err(wrong()),
            rest => (None, rest),
        };
        let is_at_its_place = |(at, word): (usize, &&str)| (*word == ",") == (at % 2 == 1);
        if rest.len().is_multiple_of(2) || !rest.iter().enumerate().all(is_at_its_place) {
            return Err(wrong());
        }
        let organizations: Vec<String> = rest.iter().step_by(2).map(|word| (*word).to_owned()).collect();
        for (at, name) in organizations.iter().enumerate() {
            if organizations[..at].contains(name) {
                let reason = format!("agreement '{text}': \"{name}\" is there twice");
                return Err(LedgerError::Refused(reason));
            }
        }
        Ok(AgreementPolicy { any, organizations })
    }

    /// Whether a network can have it: the organizations are members of it, and enough of them.
    ///
    /// # Errors
    /// [`LedgerError::Refused`] with the reason.
    pub fn check(&self, genesis: &Genesis) -> LedgerResult<()> {
        let is_member = |name: &&String| genesis.members.iter().any(|member| member.name == **name);
        if let Some(name) = self.organizations.iter().find(|name| !is_member(name)) {
            let names: Vec<&str> = genesis.members.iter().map(|member| member.name.as_str()).collect();
            let reason = format!("\"{name}\" is no organization; there are {}", names.join(", "));
            return Err(LedgerError::Refused(format!("agreement '{self}': {reason}")));
        }
        let (needed, count) = (self.needed(genesis), self.members(genesis).len());
        if needed > count {
            let reason = format!("{needed} of {count} organizations can never agree");
            return Err(LedgerError::Refused(format!("agreement '{self}': {reason}")));
        }
        Ok(())
    }

    /// The members that may agree, by their places in the founding document.
    pub fn members(&self, genesis: &Genesis) -> BTreeSet<u32> {
        let is_named = |name: &String| self.organizations.is_empty() || self.organizations.contains(name);
        let members = genesis.members.iter().enumerate().filter(|(_, member)| is_named(&member.name));
        members.map(|(place, _)| place as u32).collect()
    }

    /// How many of them have to.
    pub fn needed(&self, genesis: &Genesis) -> usize {
        self.any.unwrap_or_else(|| self.members(genesis).len())
    }

    /// How many agreements are missing where these members have agreed.
    pub fn missing(&self, genesis: &Genesis, agreed: &BTreeSet<u32>) -> usize {
        let has = self.members(genesis).intersection(agreed).count();
        self.needed(genesis).saturating_sub(has)
    }
}

impl fmt::Display for AgreementPolicy {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.organizations.join(", ");
        match (self.any, names.is_empty()) {
            (None, true) => to.write_str("all"),
            (None, false) => to.write_str(&names),
            (Some(count), true) => write!(to, "any {count}"),
            (Some(count), false) => write!(to, "any {count} of {names}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::genesis::Identity;
    use crate::signature::PublicKey;

    fn genesis() -> Genesis {
        let identity =
            |(name, key): (&str, u8)| Identity { name: name.to_owned(), key: PublicKey([key; 32]) };
        Genesis {
            name: "tested".to_owned(),
            members: [("ada", 1), ("bob-2", 2), ("cyd", 3)].map(identity).into(),
            quorum: 2,
            ordering: PublicKey([4; 32]),
            successors: Vec::new(),
            clients: Vec::new(),
        }
    }

    #[test]
    fn policies_are_read_and_count_the_members_that_they_name() {
        let genesis = genesis();
        for (text, shown, needed, members) in [
            ("all", "all", 3, vec![0, 1, 2]),
            (" any  2", "any 2", 2, vec![0, 1, 2]),
            ("cyd", "cyd", 1, vec![2]),
            ("bob-2,ada", "bob-2, ada", 2, vec![0, 1]),
            ("any 1 of ada , cyd", "any 1 of ada, cyd", 1, vec![0, 2]),
        ] {
            let policy = AgreementPolicy::parse(text).expect(text);
            policy.check(&genesis).expect(text);
            assert_eq!((policy.to_string().as_str(), policy.needed(&genesis)), (shown, needed));
            assert_eq!(policy.members(&genesis), members.into_iter().collect());
            assert_eq!(AgreementPolicy::parse(shown), Ok(policy));
        }
        let policy = AgreementPolicy::parse("any 2 of ada, cyd").expect("a policy");
        assert_eq!(policy.missing(&genesis, &BTreeSet::from([0, 1])), 1);
        assert_eq!(policy.missing(&genesis, &BTreeSet::from([0, 2])), 0);
    }

    #[test]
    fn what_is_no_policy_of_the_network_is_refused_with_the_reason() {
        for text in
            ["", "any", "any 0", "any x", "any 1 of", "ada bob", "ada,", ", ada", "any 1 of ,", "ada,,bob"]
        {
            let said = AgreementPolicy::parse(text).expect_err(text).to_string();
            assert!(said.contains("are the forms"), "{text}: {said}");
        }
        let said = AgreementPolicy::parse("ada, ada").expect_err("twice").to_string();
        assert!(said.contains("twice"), "{said}");
        for (text, reason) in [
            ("ada, dan", "\"dan\" is no organization"),
            ("any 4", "can never"),
            ("any 3 of ada, cyd", "3 of 2"),
        ] {
            let said =
                AgreementPolicy::parse(text).expect(text).check(&genesis()).expect_err(text).to_string();
            assert!(said.contains(reason), "{text}: {said}");
        }
    }
}
