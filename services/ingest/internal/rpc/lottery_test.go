package rpc_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/config"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/pkg/fairdraw/beacontest"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/pkg/token"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
)

// Times of the lotteries in tests.
var (
	cutoff    = start.Add(time.Hour)
	announced = cutoff.Add(12 * time.Minute)
)

// opener opens draws like the worker service, or fails with problem if it is set.
type opener struct {
	keys    *fairdraw.Keyring
	problem error
}

func (o *opener) OpenDraw(_ context.Context, terms fairdraw.Commitment) (commitment, nonce string, err error) {
	if o.problem != nil {
		return "", "", o.problem
	}
	text, n, err := o.keys.Keys().Open(&terms)
	return string(text), fairdraw.Hash(n).String(), err
}

func receiptKeys(t *testing.T) token.SigningKeys {
	t.Helper()
	keys, err := fairdraw.ReceiptConfig{DrawReceiptKeys: "r-1:ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA="}.Keys()
	require.NoError(t, err)
	return keys
}

// drawKeys returns the draw keys of the worker service.
func drawKeys(t *testing.T) *fairdraw.Keyring {
	t.Helper()
	keys, err := fairdraw.NewKeyring(fairdraw.KeyConfig{
		DrawSecret:        config.Secret("s-1:0123456789abcdef0123456789abcdef"),
		DrawStatementKeys: config.Secret("k-1:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="),
	})
	require.NoError(t, err)
	return keys
}

func chain(t *testing.T) *beacontest.Beacon {
	t.Helper()
	b, err := beacontest.New([]byte("0123456789abcdef0123456789abcdef"), beacontest.Options{})
	require.NoError(t, err)
	return b
}

func lottery(t *testing.T) *ingestv1.CreatePromotionRequest {
	t.Helper()
	c := chain(t).Chain()
	return &ingestv1.CreatePromotionRequest{
		Caller: operator(), Title: "Tickets", EventType: "LOTTERY", CapacityTotal: 3,
		OpensAt: timestamppb.New(start.Add(-time.Hour)), ClosesAt: timestamppb.New(cutoff), AnnouncedAt: timestamppb.New(announced),
		Beacon: &ingestv1.Beacon{Scheme: c.Scheme, ChainHash: c.ChainHash, PublicKey: c.PublicKey, Genesis: c.Genesis, PeriodSeconds: c.Period, GroupHash: c.GroupHash, BeaconId: c.BeaconID},
	}
}

// lottery creates a lottery and returns its id.
func (r replica) lottery(t *testing.T) string {
	t.Helper()
	p, err := r.admin.CreatePromotion(t.Context(), lottery(t))
	require.NoError(t, err)
	return p.GetEventId()
}

// document reads all parts of a draw.
func (r replica) document(t *testing.T, event string) *fairdraw.Document {
	t.Helper()
	stream, err := r.GetDraw(t.Context(), &ingestv1.GetDrawRequest{EventId: event})
	require.NoError(t, err)
	d := &fairdraw.Document{}
	for _, part := range received(t, stream) {
		if part.GetEventId() != "" {
			d.EventID, d.Phase, d.Commitment, d.CommitmentHash = part.GetEventId(), fairdraw.Phase(part.GetPhase()), part.GetCommitment(), part.GetCommitmentHash()
			d.Seed, d.VoidedAt = part.GetSeed(), part.GetVoidedAt()
		}
		if s := part.GetStatement(); s != nil {
			d.Statement = &fairdraw.SignedStatement{Statement: s.GetStatement(), Signature: s.GetSignature()}
		}
		if b := part.GetBeacon(); b != nil {
			d.Beacon = &beacon.Round{Round: b.GetRound(), Randomness: b.GetRandomness(), Signature: b.GetSignature()}
		}
		for _, e := range part.GetExcluded() {
			d.Excluded = append(d.Excluded, fairdraw.Exclusion{RequestID: e.GetRequestId(), Reason: e.GetReason()})
		}
		d.Winners = append(d.Winners, part.GetWinners()...)
	}
	return d
}

// entries reads a part of the file of entries.
func (r replica) entries(t *testing.T, event string, offset, size int64) (ids []byte, total int64, etag string) {
	t.Helper()
	stream, err := r.GetDrawEntries(t.Context(), &ingestv1.GetDrawEntriesRequest{EventId: event, Offset: offset, Size: size})
	require.NoError(t, err)
	for i, part := range received(t, stream) {
		if i == 0 {
			total, etag = part.GetTotal(), part.GetEtag()
		}
		ids = append(ids, part.GetIds()...)
	}
	return ids, total, etag
}

func received[M any](t *testing.T, stream grpc.ServerStreamingClient[M]) []*M {
	t.Helper()
	all, err := collect(stream)
	require.NoError(t, err)
	return all
}

func collect[M any](stream grpc.ServerStreamingClient[M]) (all []*M, err error) {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
}

// The functions below do what the worker service does.

// enter makes a lottery request an entry of its draw.
func (r replica) enter(t *testing.T, id string) {
	t.Helper()
	require.NoError(t, r.tryEnter(t, id))
}

func (r replica) tryEnter(t *testing.T, id string) error {
	t.Helper()
	read := r.request(t, id)
	tx := r.store.Begin()
	tx.Change(0, read.Entered(r.store.Millis(), promotion.Turn{SequenceNumber: "7"}))
	return tx.Commit(t.Context())
}

func (r replica) closeCounters(t *testing.T, event string) {
	t.Helper()
	for {
		tx := r.store.Begin()
		for _, group := range promotion.LotteryGroups() {
			tx.Update(table.Shared, table.EntryCounterKey(event, group), table.CloseEntryCounter(r.store.Millis()), table.Condition{})
		}
		if err := tx.Commit(t.Context()); !lockTimedOut(err) {
			require.NoError(t, err)
			return
		}
	}
}

// lockTimedOut reports whether DynamoDB Local gave up waiting for other writes on a slow machine.
// Unlike this, the real DynamoDB cancels a transaction that conflicts.
func lockTimedOut(err error) bool {
	return err != nil && strings.Contains(err.Error(), "waiting for a lock")
}

func (r replica) put(t *testing.T, d *promotion.Draw) {
	t.Helper()
	tx := r.store.Begin()
	tx.Put(0, table.DrawItem(d), table.Condition{})
	require.NoError(t, tx.Commit(t.Context()))
}

// closeDraw closes a draw and publishes the statement with the root of its entries.
func (r replica) closeDraw(t *testing.T, event string) *promotion.Draw {
	t.Helper()
	r.closeCounters(t, event)
	p, err := r.store.Promotion(t.Context(), event)
	require.NoError(t, err)
	terms, hash, err := fairdraw.ParseCommitment([]byte(p.Commitment))
	require.NoError(t, err)
	entries := r.listEntries(t, event)
	excluded, err := r.store.ExcludedRequests(t.Context(), event)
	require.NoError(t, err)
	statement, err := fairdraw.NewStatement(&terms, hash, entries.Root(), int64(entries.Len()), excluded, r.store.Now())
	require.NoError(t, err)
	text, err := statement.Text()
	require.NoError(t, err)
	signed, err := fairdraw.SignStatement(drawKeys(t).Keys().Statements, &terms, text)
	require.NoError(t, err)
	d := &promotion.Draw{EventID: event, Phase: promotion.DrawRoot, Statement: signed.Statement, Signature: signed.Signature}
	tx := r.store.Begin()
	tx.Put(0, table.EntriesItem(event, entries.Root(), 0, entries, p.EndsAt()), table.Condition{})
	require.NoError(t, tx.Commit(t.Context()))
	r.put(t, d)
	return d
}

// listEntries returns the entries as the worker service reads them.
func (r replica) listEntries(t *testing.T, event string) fairdraw.Entries {
	t.Helper()
	var lists []fairdraw.Entries
	for _, group := range promotion.LotteryGroups() {
		var list fairdraw.Entries
		for it, err := range r.store.All(t.Context(), table.PartitionQuery{PK: table.EntryPartition(event, group)}) {
			require.NoError(t, err)
			text, err := table.DecodeEntry(it)
			require.NoError(t, err)
			id := uuid.MustParse(text)
			list = append(list, id[:]...)
		}
		lists = append(lists, list)
	}
	entries, err := fairdraw.MergeAll(lists)
	require.NoError(t, err)
	return entries
}

// decideDraw decides a draw, and stores the winners and the ranks.
func (r replica) decideDraw(t *testing.T, d *promotion.Draw) []uuid.UUID {
	t.Helper()
	p, err := r.store.Promotion(t.Context(), d.EventID)
	require.NoError(t, err)
	terms, hash, err := fairdraw.ParseCommitment([]byte(p.Commitment))
	require.NoError(t, err)
	statement, err := fairdraw.ParseStatement([]byte(d.Statement))
	require.NoError(t, err)
	round := chain(t).Round(statement.Round)
	value, err := fairdraw.ParseHash(round.Randomness)
	require.NoError(t, err)
	entries := r.listEntries(t, d.EventID)
	key := fairdraw.Key(r.seed(t, &p, &terms), hash, statement.Root, value[:])
	winners := fairdraw.Winners(key, entries, terms.Winners)
	ranks := make([]uint32, entries.Len())
	for i, at := range fairdraw.Order(key, entries) {
		ranks[at] = uint32(i + 1) //nolint:gosec // a few
	}
	d.Phase, d.Beacon, d.WinnersCount = promotion.DrawDrawn, &round, int64(len(winners))
	tx := r.store.Begin()
	tx.Put(0, table.RanksItem(d, 0, promotion.NewRanks(ranks), p.EndsAt()), table.Condition{})
	for _, it := range table.WinnersItems(d, winners, p.EndsAt()) {
		tx.Put(0, it, table.Condition{})
	}
	require.NoError(t, tx.Commit(t.Context()))
	r.put(t, d)
	return winners
}

func (r replica) seed(t *testing.T, p *promotion.Promotion, terms *fairdraw.Commitment) fairdraw.Hash {
	t.Helper()
	nonce, err := fairdraw.ParseNonce(p.SeedNonce)
	require.NoError(t, err)
	seed, ok := drawKeys(t).Keys().Seed(terms, nonce)
	require.True(t, ok)
	return seed
}

// announce publishes the seed of a draw.
func (r replica) announce(t *testing.T, d *promotion.Draw) {
	t.Helper()
	p, err := r.store.Promotion(t.Context(), d.EventID)
	require.NoError(t, err)
	terms, _, err := fairdraw.ParseCommitment([]byte(p.Commitment))
	require.NoError(t, err)
	d.Seed = r.seed(t, &p, &terms).String()
	p.PublishedAt = 1
	tx := r.store.Begin()
	tx.Put(0, table.DrawItem(d), table.Condition{})
	tx.Put(0, table.PromotionItem(&p), table.Condition{})
	require.NoError(t, tx.Commit(t.Context()))
}

// writeResult writes the result of a request.
func (r replica) writeResult(t *testing.T, id string, status promotion.Status, code promotion.ResultCode) {
	t.Helper()
	read := r.request(t, id)
	tx := r.store.Begin()
	tx.Change(0, read.Ended(r.store.Millis(), status, code))
	require.NoError(t, tx.Commit(t.Context()))
}

func reason(err error) string { return errs.From(err).Reason }
