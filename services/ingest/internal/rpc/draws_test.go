package rpc_test

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/testing/protocmp"

	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
)

// drawing is a lottery of 3 places with 7 entries and a withdrawn request.
type drawing struct {
	replica

	event     string
	ids       map[string]string // request ids by user
	users     map[string]string // users by request id
	withdrawn string
}

func newDrawing(t *testing.T, w *environment, r replica) drawing {
	t.Helper()
	d := drawing{replica: r, event: r.lottery(t), ids: map[string]string{}, users: map[string]string{}}
	for i := range 7 {
		name := fmt.Sprint("u", i)
		d.ids[name] = r.applied(t, d.event, name).GetRequestId()
		d.users[d.ids[name]] = name
		r.enter(t, d.ids[name])
	}
	d.withdrawn = r.applied(t, d.event, "quitter").GetRequestId()
	require.Empty(t, r.withdraw(t, "quitter", d.withdrawn))
	w.clock.Set(cutoff.Add(40 * time.Second))
	return d
}

// verified verifies the document with the entries, with public data only.
func (d drawing) verified(t *testing.T, phase fairdraw.Phase) (*fairdraw.Document, *fairdraw.VerificationReport) {
	t.Helper()
	document := d.document(t, d.event)
	require.Equal(t, phase, document.Phase)
	var file []byte
	if document.Statement != nil {
		file, _, _ = d.entries(t, d.event, 0, 0)
	}
	report, err := fairdraw.Verify(document, file, fairdraw.Options{Algorithm: fairdraw.AlgorithmDraw})
	require.NoError(t, err)
	return document, report
}

// The document of a draw can be verified in each phase. It has no result before the announcement.
func TestDrawDocument(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	d := newDrawing(t, w, w.replica(t, options{}))
	d.verified(t, fairdraw.PhaseOpen)
	entries := func(r replica) string {
		stream, err := r.GetDrawEntries(t.Context(), &ingestv1.GetDrawEntriesRequest{EventId: d.event})
		require.NoError(t, err)
		_, err = collect(stream)
		if err == nil {
			return ""
		}
		return reason(err)
	}
	require.Equal(t, "ENTRIES_NOT_PUBLIC", entries(d.replica))
	d.put(t, &promotion.Draw{EventID: d.event, Phase: promotion.DrawClosed, Statement: "{}"})
	w.clock.Advance(time.Second)
	document, _ := d.verified(t, fairdraw.PhaseClosed)
	require.Nil(t, document.Statement, "a statement that is not signed is not public")
	require.Equal(t, "ENTRIES_NOT_PUBLIC", entries(d.replica))

	draw := d.closeDraw(t, d.event)
	w.clock.Advance(time.Second)
	document, report := d.verified(t, fairdraw.PhaseRoot)
	require.Equal(t, int64(7), report.Statement.Count)
	require.Equal(t, []fairdraw.Exclusion{{RequestID: d.withdrawn, Reason: "REJECTED_WITHDRAWN"}}, document.Excluded)

	winners := d.decideDraw(t, draw)
	w.clock.Advance(time.Second)
	document, report = d.verified(t, fairdraw.PhaseRoot)
	require.Empty(t, document.Winners)
	require.True(t, report.ValueKnown, "the beacon's value is public anyway")
	d.requireNoEarlyResult(t, w, draw)

	w.clock.Set(announced)
	document, report = d.verified(t, fairdraw.PhaseDrawn)
	require.True(t, report.Complete)
	for i, id := range winners {
		require.Equal(t, id.String(), document.Winners[i])
	}
	p, err := d.admin.AnnouncePromotion(t.Context(), &ingestv1.AnnouncePromotionRequest{Caller: operator(), EventId: d.event})
	require.NoError(t, err)
	require.Equal(t, "Announced", p.GetStatus())
	draw.Phase = promotion.DrawSettled
	d.put(t, draw)
	w.clock.Advance(time.Second)
	d.verified(t, fairdraw.PhaseSettled)
	saved, _ := d.verified(t, fairdraw.PhaseSettled)
	file, _, _ := d.entries(t, d.event, 0, 0)
	w.clock.Advance(91 * 24 * time.Hour)
	require.Equal(t, "DRAW_EXPIRED", entries(d.replica))
	stream, err := d.GetDraw(t.Context(), &ingestv1.GetDrawRequest{EventId: d.event})
	require.NoError(t, err)
	_, err = collect(stream)
	require.Equal(t, "DRAW_EXPIRED", reason(err), "a document without its lists would look forged")
	report, err = fairdraw.Verify(saved, file, fairdraw.Options{Now: w.clock.Now()})
	require.NoError(t, err, "what was saved verifies for ever")
	require.True(t, report.Complete)
}

// requireNoEarlyResult checks that no result is shown if the seed is published too early.
func (d drawing) requireNoEarlyResult(t *testing.T, w *environment, draw *promotion.Draw) {
	t.Helper()
	d.announce(t, draw)
	w.clock.Set(announced.Add(-time.Millisecond))
	document, _ := d.verified(t, fairdraw.PhaseRoot)
	require.Empty(t, document.Seed)
	require.Empty(t, document.Winners)
	_, err := d.admin.AnnouncePromotion(t.Context(), &ingestv1.AnnouncePromotionRequest{Caller: operator(), EventId: d.event})
	require.Equal(t, "ANNOUNCEMENT_EARLY", reason(err))
}

func TestVoidDraw(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	d := newDrawing(t, w, w.replica(t, options{}))
	draw := d.closeDraw(t, d.event)
	draw.Phase, draw.VoidedAt = promotion.DrawVoid, w.clock.Now().UnixMilli()
	for _, why := range []promotion.VoidReason{"", promotion.SigningKeyLost} {
		draw.VoidReason = why
		d.put(t, draw)
		w.clock.Advance(time.Second)
		document, _ := d.verified(t, fairdraw.PhaseVoid)
		require.NotZero(t, document.VoidedAt)
		stream, err := d.GetDraw(t.Context(), &ingestv1.GetDrawRequest{EventId: d.event})
		require.NoError(t, err)
		published := received(t, stream)[0]
		require.Equal(t, string(why), published.GetVoidReason())
		require.Equal(t, why != "", published.VoidReason != nil)
	}
	w.clock.Set(announced)
	d.verified(t, fairdraw.PhaseVoid)
	_, err := d.admin.AnnouncePromotion(t.Context(), &ingestv1.AnnouncePromotionRequest{Caller: operator(), EventId: d.event})
	require.Equal(t, "ANNOUNCEMENT_EARLY", reason(err))
}

// The entries can be read in parts. Each entry has a proof and, from the announcement on, a rank.
func TestEntriesAndProofs(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	d := newDrawing(t, w, w.replica(t, options{}))
	draw := d.closeDraw(t, d.event)
	whole, total, etag := d.entries(t, d.event, 0, 0)
	require.Len(t, whole, 7*16)
	require.Equal(t, int64(7*16), total)
	require.NotEmpty(t, etag)
	for _, part := range [][2]int64{{0, 16}, {16, 3}, {5, 0}, {111, 100}, {112, 1}, {500, 1}} {
		got, total, tag := d.entries(t, d.event, part[0], part[1])
		from := min(part[0], 112)
		to := int64(112)
		if part[1] > 0 {
			to = min(to, from+part[1])
		}
		require.Equal(t, string(whole[from:to]), string(got), "%v", part)
		require.Equal(t, int64(112), total)
		require.Equal(t, etag, tag)
	}
	_, report := d.verified(t, fairdraw.PhaseRoot)
	ranks := map[int64]string{}
	prove := func(rank bool) {
		t.Helper()
		for _, id := range d.ids {
			got, err := d.GetDrawProof(t.Context(), &ingestv1.GetDrawProofRequest{EventId: d.event, RequestId: id})
			require.NoError(t, err)
			proof := fairdraw.Proof{Index: int(got.GetIndex()), Count: int(got.GetCount())}
			for _, text := range got.GetPath() {
				hash, err := fairdraw.ParseHash(text)
				require.NoError(t, err)
				proof.Path = append(proof.Path, hash)
			}
			require.True(t, proof.Verify(uuid.MustParse(id), report.Statement.Root))
			require.Equal(t, rank, got.Rank != nil)
			ranks[got.GetRank()] = id
		}
	}
	prove(false)
	_, err := d.GetDrawProof(t.Context(), &ingestv1.GetDrawProofRequest{EventId: d.event, RequestId: d.withdrawn})
	require.Equal(t, "REQUEST_NOT_FOUND", reason(err))
	winners := d.decideDraw(t, draw)
	d.announce(t, draw)
	w.clock.Set(announced.Add(-time.Second))
	prove(false)
	w.clock.Set(announced)
	prove(true)
	for rank := range int64(7) {
		require.NotEmpty(t, ranks[rank+1], "rank %d", rank+1)
	}
	require.Equal(t, winners[1].String(), ranks[2])
}

// Entries that differ from the signed statement are not served.
func TestEntriesThatWereNotSigned(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	d := newDrawing(t, w, w.replica(t, options{}))
	draw := d.closeDraw(t, d.event)
	statement, err := fairdraw.ParseStatement([]byte(draw.Statement))
	require.NoError(t, err)
	signed := d.listEntries(t, d.event)
	prove := func(r replica, id string) string {
		_, err := r.GetDrawProof(t.Context(), &ingestv1.GetDrawProofRequest{EventId: d.event, RequestId: id})
		return reason(err)
	}
	stranger := uuid.Max
	added := slices.Concat(signed, stranger[:])
	for name, forged := range map[string]fairdraw.Entries{
		"added": added, "removed": signed[16:], "replaced": append(slices.Clone(signed[:len(signed)-16]), stranger[:]...),
		"none": {}, "unsorted": slices.Concat(signed[16:], signed[:16]), "half": signed[:len(signed)-8],
	} {
		tx := d.store.Begin()
		tx.Put(0, table.EntriesItem(d.event, statement.Root, 0, forged, announced.UnixMilli()), table.Condition{})
		require.NoError(t, tx.Commit(t.Context()))
		require.Equal(t, "INTERNAL", prove(w.replica(t, options{}), stranger.String()), name)
		require.Equal(t, "INTERNAL", prove(w.replica(t, options{}), d.ids["u0"]), name)
	}
}

// From the announcement on, results come from the list of winners, even if no request has one yet.
func TestResultsBeforeTheyAreWritten(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	d := newDrawing(t, w, w.replica(t, options{}))
	draw := d.closeDraw(t, d.event)
	won := map[string]bool{}
	for _, id := range d.decideDraw(t, draw) {
		won[id.String()] = true
	}
	w.clock.Set(announced)
	late, err := d.GetMyRequest(t.Context(), &ingestv1.GetMyRequestRequest{Caller: user("u0"), EventId: d.event})
	require.NoError(t, err)
	require.Equal(t, "PENDING", late.GetUiResult(), "worker has not published the seed yet")
	d.announce(t, draw)
	w.clock.Advance(time.Second)
	quitter, err := d.GetMyRequest(t.Context(), &ingestv1.GetMyRequestRequest{Caller: user("quitter"), EventId: d.event})
	require.Equal(t, "REQUEST_NOT_FOUND", reason(err), "%v", quitter)
	for id, name := range d.users {
		want := []string{"REJECTED", "REJECTED", "REJECTED_LOTTERY_LOSE"}
		if won[id] {
			want = []string{"SUCCEEDED", "SUCCESS", "SUCCESS"}
		}
		own, err := d.GetMyRequest(t.Context(), &ingestv1.GetMyRequestRequest{Caller: user(name), EventId: d.event})
		require.NoError(t, err)
		listed, err := d.ListMyRequests(t.Context(), &ingestv1.ListMyRequestsRequest{Caller: user(name)})
		require.NoError(t, err)
		for _, got := range append(listed.GetItems(), own) {
			require.Equal(t, want, []string{got.GetStatus(), got.GetUiResult(), got.GetResultCode()})
			require.Equal(t, announced.UnixMilli(), got.GetFinishedAt())
		}
		full, err := d.GetRequest(t.Context(), &ingestv1.GetRequestRequest{Caller: user(name), RequestId: id})
		require.NoError(t, err)
		full.QueuedAt, full.StartedAt, full.QueueSeq = nil, nil, nil // not cached
		require.Empty(t, cmp.Diff(full, own, protocmp.Transform()))
		require.Equal(t, want[1], d.applied(t, d.event, name).GetUiResult())
	}
	for filter, n := range map[string]int{"SUCCEEDED": 3, "REJECTED": 5, "PROCESSING": 0} {
		page, err := d.admin.ListRequests(t.Context(), &ingestv1.ListRequestsRequest{Caller: operator(), EventId: d.event, Status: filter})
		require.NoError(t, err)
		require.Len(t, page.GetItems(), n, filter)
	}
}

// exportedParts reads the winners in calls of at most limit lines each, and returns the text of each.
func (r replica) exportedParts(t *testing.T, event string, limit int32) (texts []string, err error) {
	t.Helper()
	in := &ingestv1.ExportWinnersRequest{Caller: operator(), EventId: event, Limit: limit}
	for {
		stream, err := r.admin.ExportWinners(t.Context(), in)
		require.NoError(t, err)
		parts, err := collect(stream)
		if err != nil {
			return nil, err
		}
		var text strings.Builder
		var next *int64
		for _, p := range parts {
			require.Nil(t, next, "behind the last part")
			text.Write(p.GetCsv())
			next = p.Next
		}
		texts = append(texts, text.String())
		if next == nil {
			return texts, nil
		}
		in.After = *next
	}
}

// exportedLines exports all winners of a promotion in one call, and returns the fields of each line
// of the CSV but the first, which has the names of the columns.
func (r replica) exportedLines(t *testing.T, event string) ([][]string, error) {
	t.Helper()
	texts, err := r.exportedParts(t, event, 0)
	if err != nil {
		return nil, err
	}
	require.Len(t, texts, 1)
	text := texts[0]
	lines, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	require.NoError(t, err)
	require.Equal(t, len(lines), strings.Count(text, "\r\n"), "RFC 4180")
	require.Equal(t, len(lines), strings.Count(text, "\n"))
	require.Equal(t, []string{"rank", "requestId", "userId"}, lines[0])
	return lines[1:], nil
}

func TestExportWinners(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	d := newDrawing(t, w, w.replica(t, options{}))
	draw := d.closeDraw(t, d.event)
	winners := d.decideDraw(t, draw)
	d.announce(t, draw)
	w.clock.Set(announced.Add(-time.Millisecond))
	_, err := d.exportedLines(t, d.event)
	require.Equal(t, "ANNOUNCEMENT_EARLY", reason(err))
	w.clock.Set(announced)
	lines, err := d.exportedLines(t, d.event)
	require.NoError(t, err)
	require.Len(t, lines, 3)
	for i, id := range winners {
		require.Equal(t, []string{fmt.Sprint(i + 1), id.String(), d.users[id.String()]}, lines[i])
	}
	d.requireSameExportInParts(t, d.event)
	_, err = d.exportedLines(t, "none")
	require.Equal(t, "PROMOTION_NOT_FOUND", reason(err))

	w.clock.Set(start)
	first := d.promotion(t)
	lines, err = d.exportedLines(t, first)
	require.NoError(t, err)
	require.Empty(t, lines)
	var want [][]string
	tx := d.store.Begin()
	for i, name := range []string{"zoe", "@ann", "bob"} {
		read := d.request(t, d.applied(t, first, name).GetRequestId())
		tx.Settle(i, read.Won(start.UnixMilli(), int64(i+1), promotion.Turn{SequenceNumber: fmt.Sprint(7 + i)}))
		want = append(want, []string{fmt.Sprint(i + 1), read.RequestID, strings.Replace(name, "@", "'@", 1)})
	}
	require.NoError(t, tx.Commit(t.Context()))
	lines, err = d.exportedLines(t, first)
	require.NoError(t, err)
	require.Equal(t, want, lines, "in the order of their places")
	d.requireSameExportInParts(t, first)
}

// requireSameExportInParts checks that calls for parts give the same three winners as one call.
func (r replica) requireSameExportInParts(t *testing.T, event string) {
	t.Helper()
	whole, err := r.exportedParts(t, event, 0)
	require.NoError(t, err)
	for limit, calls := range map[int32]int{1: 3, 2: 2, 3: 1} {
		texts, err := r.exportedParts(t, event, limit)
		require.NoError(t, err)
		require.Len(t, texts, calls)
		require.Equal(t, whole[0], strings.Join(texts, ""))
	}
}

// A winner whose item cannot be read has an empty line, so that the other winners keep their ranks.
// No index is read.
func TestExportOfAnUnreadableWinner(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{dynamo: dynamotest.Hook{Before: func(in any) error {
		if q, ok := in.(*awsdynamo.QueryInput); ok && q.IndexName != nil {
			t.Error("an index is read")
		}
		return nil
	}}})
	event := r.promotion(t)
	var want [][]string
	for i, name := range []string{"ann", "bob"} {
		read := r.request(t, r.applied(t, event, name).GetRequestId())
		settled := read.Won(start.UnixMilli(), int64(i+1), promotion.Turn{SequenceNumber: fmt.Sprint(i)})
		tx := r.store.Begin()
		tx.Settle(0, settled)
		require.NoError(t, tx.Commit(t.Context()))
		want = append(want, []string{fmt.Sprint(i + 1), read.RequestID, name})
		if i == 0 {
			w.corruptAttribute(t, table.KeyOf(table.WinnersItem([]promotion.Request{settled.After})), "winners")
			want[0][1], want[0][2] = "", ""
		}
	}
	lines, err := r.exportedLines(t, event)
	require.NoError(t, err)
	require.Equal(t, want, lines)
}
