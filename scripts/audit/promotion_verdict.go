package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/uuid"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/fairdraw"
)

// PromotionVerdict is the result of a run of the promotions demo. The JSON names are those in the
// last line that the demo prints.
type PromotionVerdict struct {
	// Expected is the number of users who applied in time, and Applicants the number of those whose
	// request is stored. Both are sums over the two promotions.
	Expected   int `json:"wanted"`
	Applicants int `json:"applicants"`
	// FirstCome and Lottery count the requests that succeeded in each promotion. Places and Winners
	// are the numbers that should have succeeded.
	FirstCome int `json:"first_come"`
	Lottery   int `json:"lottery"`
	Places    int `json:"places"`
	Winners   int `json:"winners"`
	// Late counts the users who were refused since they applied after the lottery's cutoff.
	Late int `json:"late"`
	// DuplicatesIn counts users with more than one valid request, locks with the id of another
	// request, and users who got contradictory answers.
	DuplicatesIn int `json:"duplicates_in"`
	// OutOfOrder counts winners although an earlier request was rejected as sold out.
	OutOfOrder int `json:"out_of_order"`
	Unsettled  int `json:"unsettled"`
	// Unverified counts the faults of the draw: wrong statements in its public document, and results
	// in the table that differ from the document.
	Unverified int `json:"unverified"`
	// Other counts all other faults. The last line contains it if it is not 0.
	Other int `json:"other"`
}

// OK reports whether exactly the right users have a place and there is no other fault.
func (v PromotionVerdict) OK() bool {
	return v.Applicants == v.Expected && v.FirstCome == v.Places && v.Lottery == v.Winners &&
		v.DuplicatesIn == 0 && v.OutOfOrder == 0 && v.Unsettled == 0 && v.Unverified == 0 && v.Other == 0
}

func (v PromotionVerdict) Line() string {
	return LastLine("demo-promo", v.OK(), fmt.Sprintf("applicants=%d first_come=%d lottery=%d late=%d duplicates_in=%d out_of_order=%d unsettled=%d unverified=%d",
		v.Applicants, v.FirstCome, v.Lottery, v.Late, v.DuplicatesIn, v.OutOfOrder, v.Unsettled, v.Unverified), v.Other)
}

// PromotionRun is what the demo has done and seen, without reading a store.
type PromotionRun struct {
	// Users applied to each of the two promotions. Late are those whom the lottery refused, since its
	// cutoff had passed.
	Users, Late        []string
	FirstCome, Lottery PromotionOfRun
	// Receipts are the receipts that the lottery's applicants got. Earlier is a copy of the draw's
	// public document from before the beacon published the randomness that decided the draw.
	Receipts []string
	Earlier  *fairdraw.Document
	// Read requests a path from the gateway, without signing in, and returns the body.
	Read func(ctx context.Context, path string) ([]byte, error)
	// Violations describe, in a sentence each, answers to a user that contradict each other.
	Violations []string
}

// PromotionOfRun is one of the two promotions of a run.
type PromotionOfRun struct {
	Name, EventID string
	Places        int
}

// promotionJudge collects the verdict on a run and the sentences that explain it.
type promotionJudge struct {
	PromotionRun
	PromotionVerdict
	Findings
}

// Judge computes the verdict on a run from the stores and from the draw's public document.
func (s *Promotions) Judge(ctx context.Context, run PromotionRun) (PromotionVerdict, Findings, error) {
	n := len(run.Users)
	j := &promotionJudge{PromotionRun: run, PromotionVerdict: PromotionVerdict{Places: min(n, run.FirstCome.Places)}}
	first, err := s.Get(ctx, run.FirstCome.EventID, run.Users...)
	if err != nil {
		return j.PromotionVerdict, j.Findings, err
	}
	lottery, err := s.Get(ctx, run.Lottery.EventID, run.Users...)
	if err != nil {
		return j.PromotionVerdict, j.Findings, err
	}
	for _, user := range run.Late {
		// An application that got no answer may have been in time, and its repetition late.
		if lottery.Locks[user] == "" {
			j.PromotionVerdict.Late++
		}
	}
	j.Expected, j.Winners = 2*n-j.PromotionVerdict.Late, min(n-j.PromotionVerdict.Late, run.Lottery.Places)
	j.PromotionVerdict.FirstCome, j.PromotionVerdict.Lottery = first.Succeeded(), lottery.Succeeded()
	j.judgeStored(run.FirstCome, first)
	j.judgeStored(run.Lottery, lottery)
	j.judgeDraw(ctx, lottery)
	j.DuplicatesIn += len(run.Violations)
	for _, text := range run.Violations {
		j.Add("%s", text)
	}
	if j.Applicants != j.Expected {
		j.Add("%d of %d applications are stored", j.Applicants, j.Expected)
	}
	return j.PromotionVerdict, j.Findings, nil
}

// judgeStored compares the items of one promotion with each other, and counts their faults.
func (j *promotionJudge) judgeStored(expected PromotionOfRun, p *Promotion) {
	users := map[string]bool{}
	for _, r := range p.Requests {
		users[r.User] = true
	}
	j.Applicants += len(users)
	f := p.Faults(nil)
	for _, kind := range []struct {
		count *int
		texts []string
	}{
		{&j.DuplicatesIn, f.Duplicates}, {&j.OutOfOrder, f.OutOfOrder}, {&j.Unsettled, f.Unsettled},
		{&j.Other, f.Places}, {&j.Other, f.Logs}, {&j.Other, f.Announcements}, {&j.Other, f.Miscounted},
	} {
		*kind.count += len(kind.texts)
		for _, text := range kind.texts {
			j.Add("%s: %s", expected.Name, text)
		}
	}
}

// judgeDraw verifies the draw from its public document, as any user can, with all receipts and the
// copy that was saved earlier. It then compares the winners with the requests in the table.
func (j *promotionJudge) judgeDraw(ctx context.Context, p *Promotion) {
	unverified := func(format string, args ...any) {
		j.Unverified++
		j.Add("draw: "+format, args...)
	}
	published := "/api/v1/draws/" + j.PromotionRun.Lottery.EventID
	raw, err := j.Read(ctx, published)
	if err != nil {
		unverified("no document: %v", err)
		return
	}
	doc, err := fairdraw.ParseDocument(raw)
	if err != nil {
		unverified("no document: %v", err)
		return
	}
	var entries []byte
	if doc.Statement != nil {
		if entries, err = j.Read(ctx, published+"/entries"); err != nil {
			unverified("no entries: %v", err)
			return
		}
	}
	o := fairdraw.Options{Algorithm: fairdraw.AlgorithmDraw, Receipts: j.Receipts}
	if j.Earlier != nil {
		o.Earlier = append(o.Earlier, j.Earlier)
	}
	report, err := fairdraw.Verify(doc, entries, o)
	switch {
	case err != nil:
		unverified("%v", err)
		return
	case !report.Complete:
		unverified("the result is not public, the phase is %s", doc.Phase)
	case report.RootSeenAt.IsZero():
		unverified("the root was not seen before the round")
	}
	won := map[string]bool{}
	for _, id := range doc.Winners {
		won[id] = true
	}
	for _, r := range p.Requests {
		if got := r.Status == succeeded; got != won[r.ID] {
			unverified("%s is %s, a winner: %t", r.ID, r.Status, won[r.ID])
		}
	}
}

// PromotionFaultKinds returns the kinds of faults that InjectFault accepts.
func PromotionFaultKinds() []string { return []string{damageOrder, damageWinner, damageDuplicate} }

const (
	damageOrder     = "order"
	damageWinner    = "winner"
	damageDuplicate = "duplicate"
)

// InjectFault damages the table directly, to show that Judge detects the fault.
func (s *Promotions) InjectFault(ctx context.Context, fault string, run PromotionRun) error {
	event := run.FirstCome.EventID
	if fault == damageWinner {
		event = run.Lottery.EventID
	}
	p, err := s.Get(ctx, event)
	if err != nil {
		return err
	}
	slices.SortFunc(p.Requests, func(a, b EventRequest) int { return strings.Compare(a.QueueSeq, b.QueueSeq) })
	won, lost := -1, -1 // indices of the last winner and the first loser
	for i, r := range p.Requests {
		switch {
		case r.Status == succeeded:
			won = i
		case r.Status == rejected && lost < 0:
			lost = i
		}
	}
	if won < 0 || lost < 0 {
		return errors.New("there is nothing to damage")
	}
	switch fault {
	case damageOrder, damageWinner: // exchanges the results of a winner and a loser
		return s.exchangeAttributes(ctx, p.Requests[won].ID, p.Requests[lost].ID, "status", "resultCode")
	case damageDuplicate: // stores a second request of a winner
		return s.copyRequest(ctx, p.Requests[won].ID)
	default:
		return fmt.Errorf("there is no damage %q", fault)
	}
}

func (s *Promotions) readRequest(ctx context.Context, id string) (dynamo.Item, error) {
	got, err := s.db.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &s.table, ConsistentRead: aws.Bool(true), Key: dynamo.Item{"PK": dynamo.String("REQ#" + id), "SK": dynamo.String("META")},
	})
	if err != nil {
		return nil, err
	}
	return got.Item, nil
}

func (s *Promotions) putItem(ctx context.Context, item dynamo.Item) error {
	_, err := s.db.PutItem(ctx, &dynamodb.PutItemInput{TableName: &s.table, Item: item})
	return err
}

func (s *Promotions) exchangeAttributes(ctx context.Context, oneID, otherID string, attributes ...string) error {
	a, err := s.readRequest(ctx, oneID)
	if err != nil {
		return err
	}
	b, err := s.readRequest(ctx, otherID)
	if err != nil {
		return err
	}
	for _, name := range attributes {
		a[name], b[name] = b[name], a[name]
	}
	return errors.Join(s.putItem(ctx, a), s.putItem(ctx, b))
}

// copyRequest stores a copy of a request under another id.
func (s *Promotions) copyRequest(ctx context.Context, id string) error {
	item, err := s.readRequest(ctx, id)
	if err != nil {
		return err
	}
	newID := uuid.Must(uuid.NewV7()).String()
	item["PK"], item["requestId"] = dynamo.String("REQ#"+newID), dynamo.String(newID)
	return s.putItem(ctx, item)
}
