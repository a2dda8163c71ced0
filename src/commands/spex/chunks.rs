//! Sorts chunks with all their places, to find those that several documents share.

use super::documents::SpexDocuments;
use crate::{
    base::{error::Result, parallel},
    index::{Resources, posting::Buckets},
    report::{
        Ndjson, Sink,
        records::{ChunkDocument, ChunkRecord},
    },
};

/// Chunks are divided by their top eight bits into buckets that fit into memory.
const BUCKETS: usize = 256;

/// A chunk, and a place: the document and the number of the first token. Sorts by chunk.
pub type Key = [u64; 2];

pub fn key(chunk: u64, document: u32, first: u32) -> Key {
    [chunk, u64::from(document) << 32 | u64::from(first)]
}

fn document_of([_, place]: Key) -> u32 {
    (place >> 32) as u32
}

/// The places of all chunks.
pub struct ChunkList {
    buckets: Buckets<2>,
    threads: usize,
}

impl ChunkList {
    pub fn new(resources: &Resources) -> Self {
        let buckets = Buckets::new(
            BUCKETS,
            resources.memory_bytes / 2,
            resources.tmp_dir.clone(),
        );
        Self {
            buckets,
            threads: resources.threads,
        }
    }

    pub fn push(&mut self, keys: &[Key]) -> Result<()> {
        keys.iter()
            .for_each(|&key| self.buckets.push((key[0] >> 56) as usize, key));
        self.buckets.settle()
    }

    /// Calls `work` for each shared chunk with all its places, and passes the results on in batches, by rising chunk.
    ///
    /// A chunk is shared if several documents have it, exact duplicates included, or with `within` if it has several places.
    pub fn each_shared<M: Default + Send>(
        self,
        documents: &SpexDocuments,
        within: bool,
        work: impl Fn(&[Key], &mut M) -> Result<()> + Sync,
        mut sink: impl FnMut(M) -> Result<()>,
    ) -> Result<()> {
        let is_shared = |places: &&[Key]| {
            let (first, last) = (
                document_of(places[0]),
                document_of(places[places.len() - 1]),
            );
            first != last || documents.has_alias(first) || within && places.len() > 1
        };
        let worker = || {
            |bucket: usize| -> Result<M> {
                let (mut keys, mut made) = (self.buckets.take(bucket)?, M::default());
                keys.sort_unstable();
                let mut chunks = keys.chunk_by(|one, two| one[0] == two[0]).filter(is_shared);
                chunks.try_for_each(|places| work(places, &mut made))?;
                Ok(made)
            }
        };
        parallel::ordered_items(self.threads, 0..BUCKETS, worker, |made: Result<M>| {
            sink(made?)
        })
    }
}

/// The text of a chunk, by its first place.
pub fn text_of(places: &[Key], documents: &SpexDocuments, length: u32) -> Result<Vec<u8>> {
    documents.text(document_of(places[0]), places[0][1] as u32, length)
}

/// Appends a line of JSON.
pub fn put_chunk(
    out: &mut Vec<u8>,
    places: &[Key],
    documents: &SpexDocuments,
    length: u32,
) -> Result<()> {
    let text = text_of(places, documents, length)?;
    let mut record = ChunkRecord {
        blot: format!("{:016x}", places[0][0]),
        text: &String::from_utf8_lossy(&text),
        documents: Vec::new(),
    };
    for of_document in places.chunk_by(|one, two| document_of(*one) == document_of(*two)) {
        let count = of_document.len();
        let same = documents.alike(document_of(of_document[0]));
        record
            .documents
            .extend(same.map(|doc| ChunkDocument { doc, count }));
    }
    Ndjson.put_record(&record, out)
}
