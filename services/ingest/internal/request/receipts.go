package request

import (
	"time"

	"github.com/google/uuid"
	"github.com/maypok86/otter/v2"

	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/token"
)

// receiptGrace limits when a request may get a receipt: only if it is known by this time after the
// cutoff that the request is stored. A later request may have missed the draw, which accepts no
// entries from half a minute after the cutoff on. Its receipt would look like proof of fraud.
const receiptGrace = 5 * time.Second

const maxTerms = 1000 // the most lotteries whose parsed terms are cached

// Receipts signs receipts of lottery requests. The same request always has the same receipt.
type Receipts struct {
	keys  func() token.SigningKeys
	skew  func() time.Duration
	terms *otter.Cache[string, *terms] // cached, since parsing takes longer than signing
}

// terms are the parsed commitment of a lottery, and its hash.
type terms struct {
	commitment fairdraw.Commitment
	hash       fairdraw.Hash
}

// NewReceipts returns Receipts that sign with the current keys. skew returns by how much this
// machine's clock is wrong.
func NewReceipts(keys func() token.SigningKeys, skew func() time.Duration) *Receipts {
	return &Receipts{keys: keys, skew: skew, terms: otter.Must(&otter.Options[string, *terms]{MaximumSize: maxTerms})}
}

// ReceiptFor returns the receipt of a request that was stored at storedBy (epoch ms) or earlier. It
// is empty for a request that came too late, and without the key that the commitment requires.
func (s *Receipts) ReceiptFor(p *promotion.Promotion, r *promotion.Request, storedBy int64) string {
	if p.EventType != promotion.Lottery || r.EventID != p.EventID || r.RequestedAt >= r.LotteryCutoffAt {
		return ""
	}
	// If this machine's clock is slow, the request may have been stored later than storedBy.
	storedBy = max(storedBy, storedBy-s.skew().Milliseconds())
	if r.EnteredAt == 0 && storedBy > r.LotteryCutoffAt+receiptGrace.Milliseconds() {
		return ""
	}
	t := s.termsOf(p)
	id, err := uuid.Parse(r.RequestID)
	if t == nil || err != nil {
		return ""
	}
	keys := s.keys()
	kid, ok := keys.KidOf(t.commitment.ReceiptKey[:])
	if !ok {
		return ""
	}
	return fairdraw.Receipt{EventID: r.EventID, RequestID: id, At: r.RequestedAt, Commitment: t.hash}.Sign(keys, kid)
}

// termsOf returns the parsed terms of a lottery; nil if its commitment cannot be parsed.
func (s *Receipts) termsOf(p *promotion.Promotion) *terms {
	t, _ := s.terms.ComputeIfAbsent(p.EventID, func() (t *terms, cancel bool) {
		c, hash, err := fairdraw.ParseCommitment([]byte(p.Commitment))
		return &terms{commitment: c, hash: hash}, err != nil
	})
	return t
}
