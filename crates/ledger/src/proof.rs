//! Proofs that a transaction is in a ledger: the transaction, its way up the Merkle tree, the header of its block, the votes
//! for that, and the founding document. Nothing else is needed to check one but the network's hash.

use crate::agreement::OrderEntry;
use crate::block::{BlockHeader, leaves};
use crate::bytes::{CanonicalReader, CanonicalWriter};
use crate::chain::LedgerChain;
use crate::error::{LedgerError, LedgerResult};
use crate::file::{RecordKind, visit_records};
use crate::genesis::Genesis;
use crate::hash::LedgerHash;
use crate::merkle;
use crate::message::Proposal;
use crate::signers::SignerTables;
use crate::verify::{FileVerifier, decode_votes_record};
use std::path::Path;

/// What a proof begins with.
const MAGIC: &[u8] = b"AnKerDB ledger proof 1\n";

/// A transaction, by what it is called on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionName {
    /// Of which block, from 1.
    pub height: u64,
    /// Which one of it, from 0.
    pub index: usize,
}

impl std::str::FromStr for TransactionName {
    type Err = LedgerError;

    /// Reads `block.transaction`.
    fn from_str(text: &str) -> LedgerResult<TransactionName> {
        let wrong = || {
            LedgerError::Refused(format!("\"{text}\" is no transaction: BLOCK.TRANSACTION is, such as 3.0"))
        };
        let (height, index) = text.split_once('.').ok_or_else(wrong)?;
        let (height, index) = (height.parse().map_err(|_| wrong())?, index.parse().map_err(|_| wrong())?);
        Ok(TransactionName { height, index })
    }
}

/// What a proof proves.
#[derive(Debug)]
pub struct ProvedTransaction {
    /// Of which network.
    pub genesis: Genesis,
    /// Its block.
    pub header: BlockHeader,
    /// Its place in the block.
    pub index: usize,
    /// Whether it has succeeded.
    pub has_succeeded: bool,
    /// What it was, if its signature is good; otherwise the members have refused it.
    pub proposal: Option<Proposal>,
    /// Name of the client that signed it.
    pub client: Option<String>,
    /// Names of the organizations that have agreed to it.
    pub agreed: Vec<String>,
    /// How many members have voted for the block.
    pub votes: usize,
}

/// Makes the proof of a transaction. Verifies the file on the way.
///
/// # Errors
/// Those of [`crate::verify::verify_file`], and [`LedgerError::Missing`] if there is no such transaction.
pub fn prove(path: &Path, name: TransactionName) -> LedgerResult<Vec<u8>> {
    let mut verifier = FileVerifier::default();
    let mut proof = None;
    visit_records(path, &mut |kind, payload, place| {
        let failed = |error| LedgerError::file(path, format!("at byte {place}: {error}"));
        let counted = verifier.chain.as_ref().map_or(0, |chain| chain.height);
        let header = match (&verifier.prepared, kind) {
            (Some(prepared), RecordKind::Votes) if counted + 1 == name.height => {
                Some((prepared.block.header.clone(), prepared.checked.entries.clone()))
            }
            _ => None,
        };
        verifier.record(kind, payload).map_err(failed)?;
        if let Some((header, proposals)) = header {
            let votes = decode_votes_record(payload)?;
            proof = Some(encode(&verifier.chain()?.genesis, &header, &proposals, name, &votes)?);
        }
        Ok(())
    })?;
    let height = verifier.chain()?.height;
    proof.ok_or_else(|| {
        LedgerError::Missing(format!("there is no block {}; the last one is {height}", name.height))
    })
}

fn encode(
    genesis: &Genesis,
    header: &BlockHeader,
    proposals: &[Vec<u8>],
    name: TransactionName,
    votes: &[Vec<u8>],
) -> LedgerResult<Vec<u8>> {
    let Some(proposal) = proposals.get(name.index) else {
        let reason = format!("block {} has {} transactions, from 0", name.height, proposals.len());
        return Err(LedgerError::Missing(reason));
    };
    let path = merkle::path(&leaves(proposals, &header.outcomes), name.index);
    let mut writer = CanonicalWriter::default();
    writer.fixed(MAGIC).bytes(&genesis.encode()).bytes(&header.encode()).count(name.index).bytes(proposal);
    writer.count(path.len());
    for hash in &path {
        writer.fixed(&hash.0);
    }
    writer.count(votes.len());
    for vote in votes {
        writer.bytes(vote);
    }
    Ok(writer.finish())
}

/// Checks a proof. The caller compares the network's hash with the one that it trusts.
///
/// # Errors
/// [`LedgerError::Malformed`] if it is none, [`LedgerError::Untrusted`] or [`LedgerError::NoQuorum`] if it proves nothing.
pub fn check(proof: &[u8]) -> LedgerResult<ProvedTransaction> {
    let Some(rest) = proof.strip_prefix(MAGIC) else {
        return Err(LedgerError::Malformed("it is no proof of a ledger's transaction".into()));
    };
    let mut reader = CanonicalReader::new(rest, "proof");
    let genesis = Genesis::decode(reader.bytes()?)?;
    let header = BlockHeader::decode(reader.bytes()?)?;
    let index = reader.u32()? as usize;
    let message = reader.bytes()?.to_vec();
    let path = (0..reader.count()?).map(|_| reader.hash()).collect::<LedgerResult<Vec<LedgerHash>>>()?;
    let mut votes = Vec::new();
    for _ in 0..reader.count()? {
        votes.push(reader.bytes()?.to_vec());
    }
    reader.end()?;
    let has_succeeded = header.outcomes.get(index);
    let root = merkle::climb(merkle::leaf(&message, has_succeeded), index, header.outcomes.count(), &path);
    if root != Some(header.root) {
        return Err(LedgerError::Untrusted("the transaction is not in the block's Merkle tree".into()));
    }
    let chain = LedgerChain::new(genesis);
    let votes = chain.check_votes(&header, &votes)?;
    let mut proved = ProvedTransaction {
        genesis: chain.genesis,
        header,
        index,
        has_succeeded,
        proposal: None,
        client: None,
        agreed: Vec::new(),
        votes,
    };
    match read_entry(&mut proved, &message, &chain.network) {
        Err(error) if has_succeeded => Err(error),
        _ => Ok(proved),
    }
}

/// Verifies the entry of a transaction, and notes what is good of it.
fn read_entry(proved: &mut ProvedTransaction, message: &[u8], network: &LedgerHash) -> LedgerResult<()> {
    let genesis = &proved.genesis;
    let entry = OrderEntry::of(message, genesis)?;
    let (key, proposal) = Proposal::verify(entry.proposal(), genesis, network)?;
    (proved.client, proved.proposal) = (Some(genesis.client(&key)?.name.clone()), Some(proposal));
    let agreed = entry.agreed(genesis, network, proved.header.height, &SignerTables::default())?;
    proved.agreed = agreed.iter().map(|member| genesis.members[*member as usize].name.clone()).collect();
    Ok(())
}
