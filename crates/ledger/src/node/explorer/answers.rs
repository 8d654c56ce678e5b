//! What the explorer is asked, and its answers as JSON. Numbers that a browser may not have exactly are texts.

use crate::agreement::{Agreement, OrderEntry};
use crate::block_index::BlockIndex;
use crate::error::{LedgerError, LedgerResult};
use crate::genesis::Genesis;
use crate::hash::{LedgerHash, hex};
use crate::message::{Proposal, Vote};
use crate::node::wire::{MemberStatus, StatusMessage};
use crate::succession::BlockOrder;
use crate::value::LedgerValue;
use crate::verify::CertifiedBlock;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Blocks of one answer.
const BLOCKS: u64 = 20;

/// Transactions of one answer.
const TRANSACTIONS: usize = 100;

/// Characters of a statement among others, and of one statement or value alone.
const CHARACTERS_AMONG_OTHERS: usize = 160;
const CHARACTERS_MAX: usize = 100_000;

/// What an explorer shows: an organization's file, and what it says of itself.
pub(crate) struct ExplorerSource {
    genesis: Genesis,
    network: LedgerHash,
    blocks: Mutex<BlockIndex>,
    status: Box<dyn Fn() -> StatusMessage + Send + Sync>,
}

impl ExplorerSource {
    /// Blocks up to the height of the status have their votes in the file.
    ///
    /// # Errors
    /// [`LedgerError::File`] if it is no ledger file.
    pub(crate) fn open(
        genesis: Genesis,
        file: &Path,
        status: Box<dyn Fn() -> StatusMessage + Send + Sync>,
    ) -> LedgerResult<ExplorerSource> {
        let (network, blocks) = (genesis.network(), Mutex::new(BlockIndex::open(file)?));
        Ok(ExplorerSource { genesis, network, blocks, status })
    }

    /// A block, if the organization has it. One is read at a time.
    fn block(&self, height: u64) -> LedgerResult<Option<CertifiedBlock>> {
        if height > (self.status)().height {
            return Ok(None);
        }
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner).block(height)
    }

    fn member(&self, place: u32) -> &str {
        self.genesis.members.get(place as usize).map_or("?", |member| &member.name)
    }
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExplorerQuestion {
    Status,
    /// Blocks below a height; the newest ones if there is none.
    Blocks(Option<u64>),
    /// A block, with its transactions from a place on.
    Block(u64, usize),
    /// A transaction, by its block and its place there.
    Transaction(u64, usize),
}

impl ExplorerQuestion {
    /// Nothing if the path or a number does not do.
    pub(super) fn parse(path: &str, query: &str) -> Option<ExplorerQuestion> {
        let parts: Vec<&str> = path.strip_prefix("/api/")?.split('/').collect();
        match (&parts[..], query.split_once('=')) {
            (["status"], None) => Some(ExplorerQuestion::Status),
            (["blocks"], None) => Some(ExplorerQuestion::Blocks(None)),
            (["blocks"], Some(("below", height))) => {
                Some(ExplorerQuestion::Blocks(Some(height.parse().ok()?)))
            }
            (["block", height], None) => Some(ExplorerQuestion::Block(height.parse().ok()?, 0)),
            (["block", height], Some(("from", place))) => {
                Some(ExplorerQuestion::Block(height.parse().ok()?, place.parse().ok()?))
            }
            (["transaction", height, place], None) => {
                Some(ExplorerQuestion::Transaction(height.parse().ok()?, place.parse().ok()?))
            }
            _ => None,
        }
    }
}

/// Answers; with nothing if the ledger has not what is asked for. Reads the file, so it is for a thread that may wait.
///
/// # Errors
/// [`LedgerError::File`] if the file is damaged there, [`LedgerError::Malformed`].
pub(super) fn answer_question(
    source: &ExplorerSource,
    question: ExplorerQuestion,
) -> LedgerResult<Option<Value>> {
    match question {
        ExplorerQuestion::Status => Ok(Some(show_status(source))),
        ExplorerQuestion::Blocks(below) => show_blocks(source, below).map(Some),
        ExplorerQuestion::Block(height, from) => {
            let Some(certified) = source.block(height)? else { return Ok(None) };
            show_block(source, &certified, from).map(Some)
        }
        ExplorerQuestion::Transaction(height, place) => {
            let Some(certified) = source.block(height)? else { return Ok(None) };
            show_transaction(source, &certified, place)
        }
    }
}

fn show_status(source: &ExplorerSource) -> Value {
    let status = (source.status)();
    let member = |member: &MemberStatus| {
        json!({
            "name": member.name, "height": member.height, "is_reached": member.is_reached,
            "voted_height": member.voted_height, "consents": member.consents,
        })
    };
    let audit = status.audit.as_ref().map(|audit| {
        json!({
            "height": audit.height, "ended_at": audit.ended_at, "took_ms": audit.took_ms, "rows": audit.rows,
            "differing": audit.differing,
        })
    });
    json!({
        "name": status.name, "network": status.network, "policy": source.genesis.policy(),
        "height": status.height, "head": status.head, "state": status.state,
        "suspects": status.suspects, "stuck": status.stuck, "not_ordered": status.not_ordered, "ordering": status.ordering, "evidence": status.evidence,
        "repairs": status.repairs, "refused": status.refused, "policies": status.policies,
        "members": status.members.iter().map(member).collect::<Vec<_>>(),
        "checkpoints": status.checkpoints, "checkpoint_failure": status.checkpoint_failure,
        "audit": audit, "audit_findings": status.audit_findings, "audit_failure": status.audit_failure,
    })
}

fn show_blocks(source: &ExplorerSource, below: Option<u64>) -> LedgerResult<Value> {
    let height = (source.status)().height;
    let to = below.map_or(height, |below| height.min(below.saturating_sub(1)));
    let mut blocks = Vec::new();
    for height in (1..=to).rev().take(BLOCKS as usize) {
        let Some((block, votes)) = source.block(height)? else { break };
        let outcomes = &block.header.outcomes;
        blocks.push(json!({
            "height": height, "hash": block.header.hash().to_string(), "votes": votes.len(),
            "transactions": outcomes.count(), "succeeded": outcomes.succeeded(),
        }));
    }
    Ok(json!({ "height": height, "blocks": blocks }))
}

fn show_block(source: &ExplorerSource, certified: &CertifiedBlock, from: usize) -> LedgerResult<Value> {
    let (block, votes) = certified;
    let header = &block.header;
    let vote = |message: &Vec<u8>| match Vote::verify(message, &source.genesis, &source.network) {
        Ok(vote) => json!({
            "member": source.member(vote.member), "round": vote.round, "hash": vote.header.hash().to_string(),
        }),
        Err(error) => json!({ "error": error.to_string() }),
    };
    let entries = BlockOrder::decode_entries(&block.order, &source.genesis)?;
    let shown = entries.iter().enumerate().skip(from).take(TRANSACTIONS);
    let transaction = |(place, entry): (usize, &Vec<u8>)| {
        let has_succeeded = header.outcomes.get(place);
        match read_entry(source, entry) {
            Ok((client, proposal)) => {
                let statements: Vec<&str> =
                    proposal.statements.iter().map(|statement| statement.sql.as_str()).collect();
                json!({
                    "place": place, "has_succeeded": has_succeeded, "client": client,
                    "number": proposal.number.to_string(),
                    "text": cut(&statements.join("; "), CHARACTERS_AMONG_OTHERS),
                })
            }
            Err(error) => {
                json!({ "place": place, "has_succeeded": has_succeeded, "error": error.to_string() })
            }
        }
    };
    Ok(json!({
        "height": header.height, "hash": header.hash().to_string(), "previous": header.previous.to_string(),
        "order": header.order.to_string(), "root": header.root.to_string(),
        "digest": header.digest.to_string(), "state": header.state.to_string(),
        "takes_over": BlockOrder::decode_successor(&block.order, &source.genesis)?.map(|service| service + 1),
        "count": entries.len(), "succeeded": header.outcomes.succeeded(), "from": from,
        "votes": votes.iter().map(vote).collect::<Vec<_>>(),
        "transactions": shown.map(transaction).collect::<Vec<_>>(),
    }))
}

fn show_transaction(
    source: &ExplorerSource,
    certified: &CertifiedBlock,
    place: usize,
) -> LedgerResult<Option<Value>> {
    let header = &certified.0.header;
    let entries = BlockOrder::decode_entries(&certified.0.order, &source.genesis)?;
    let Some(message) = entries.get(place) else { return Ok(None) };
    let mut shown = json!({
        "height": header.height, "place": place, "has_succeeded": header.outcomes.get(place),
        "hash": LedgerHash::of_row(message).to_string(),
    });
    match read_entry(source, message) {
        Ok((client, proposal)) => {
            let statements = proposal.statements.iter().map(|statement| {
                let values: Vec<Value> = statement.values.iter().map(show_value).collect();
                json!({ "text": cut(&statement.sql, CHARACTERS_MAX), "values": values })
            });
            shown["client"] = json!(client);
            shown["number"] = json!(proposal.number.to_string());
            shown["statements"] = statements.collect();
            shown["agreements"] = show_agreements(source, message);
        }
        Err(error) => shown["error"] = json!(error.to_string()),
    }
    Ok(Some(shown))
}

/// The client of an order's entry, and its proposal.
fn read_entry(source: &ExplorerSource, message: &[u8]) -> LedgerResult<(String, Proposal)> {
    let entry = OrderEntry::of(message, &source.genesis)?;
    let (key, proposal) = Proposal::verify(entry.proposal(), &source.genesis, &source.network)?;
    Ok((source.genesis.client(&key)?.name.clone(), proposal))
}

/// What organizations have said about a proposal before it was ordered.
fn show_agreements(source: &ExplorerSource, message: &[u8]) -> Value {
    let Ok(entry) = OrderEntry::of(message, &source.genesis) else { return json!([]) };
    let verify =
        |agreement: &&[u8]| Agreement::verify(agreement, entry.proposal(), &source.genesis, &source.network);
    let show = |verified: Result<Agreement, LedgerError>| match verified {
        Ok(agreement) => json!({
            "member": source.member(agreement.member), "until": agreement.until, "refusal": agreement.refusal,
        }),
        Err(error) => json!({ "error": error.to_string() }),
    };
    entry.agreements().iter().map(verify).map(show).collect()
}

fn show_value(value: &LedgerValue) -> Value {
    let (kind, text) = match value {
        LedgerValue::Null => ("null", "NULL".to_owned()),
        LedgerValue::Boolean(value) => ("boolean", value.to_string()),
        LedgerValue::Integer(value) => ("integer", value.to_string()),
        LedgerValue::Decimal(value) => ("decimal", cut(value, CHARACTERS_MAX)),
        LedgerValue::Text(value) => ("text", cut(value, CHARACTERS_MAX)),
        LedgerValue::Bytes(value) => ("bytes", cut(&hex(value), CHARACTERS_MAX)),
    };
    json!({ "kind": kind, "text": text })
}

fn cut(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        None => text.to_owned(),
        Some((at, _)) => format!("{} ... ({} bytes)", &text[..at], text.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_read_and_others_are_none() {
        let parse = ExplorerQuestion::parse;
        assert_eq!(parse("/api/status", ""), Some(ExplorerQuestion::Status));
        assert_eq!(parse("/api/blocks", "below=7"), Some(ExplorerQuestion::Blocks(Some(7))));
        assert_eq!(parse("/api/block/7", "from=100"), Some(ExplorerQuestion::Block(7, 100)));
        assert_eq!(parse("/api/transaction/7/3", ""), Some(ExplorerQuestion::Transaction(7, 3)));
        for (path, query) in [
            ("/api/status", "x=1"),
            ("/api/blocks", "below=-1"),
            ("/api/block/", ""),
            ("/api/block/99999999999999999999", ""),
            ("/api/block/7/8", ""),
            ("/api/transaction/7", ""),
            ("/api/../status", ""),
            ("/api", ""),
            ("/status", ""),
        ] {
            assert_eq!(parse(path, query), None, "{path}?{query}");
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut("\u{e4}\u{e4}\u{e4}", 2), "\u{e4}\u{e4} ... (6 bytes)");
        assert_eq!(cut("\u{e4}\u{e4}\u{e4}", 3), "\u{e4}\u{e4}\u{e4}");
    }
}
