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
)

// PromotionDamages names what Damage can do.
func PromotionDamages() []string { return []string{damageOrder, damageWinner, damageDuplicate} }

const (
	damageOrder     = "order"
	damageWinner    = "winner"
	damageDuplicate = "duplicate"
)

// Damage changes the table, bypassing the services, to show that Judge detects it.
func (s *Promotions) Damage(ctx context.Context, what string, run PromotionRun) error {
	event := run.FirstCome.EventID
	if what == damageWinner {
		event = run.Lottery.EventID
	}
	p, err := s.Get(ctx, event)
	if err != nil {
		return err
	}
	slices.SortFunc(p.Requests, func(a, b EventRequest) int { return strings.Compare(a.QueueSeq, b.QueueSeq) })
	won, lost := -1, -1 // the last who won, the first who did not
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
	switch what {
	case damageOrder, damageWinner: // one who has a place and one who has none change places
		return s.exchange(ctx, p.Requests[won].ID, p.Requests[lost].ID, "status", "resultCode")
	case damageDuplicate: // a winner has another place
		return s.copyRequest(ctx, p.Requests[won].ID)
	default:
		return fmt.Errorf("there is no damage %q", what)
	}
}

func (s *Promotions) request(ctx context.Context, id string) (dynamo.Item, error) {
	got, err := s.db.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &s.table, ConsistentRead: aws.Bool(true), Key: dynamo.Item{"PK": dynamo.String("REQ#" + id), "SK": dynamo.String("META")},
	})
	if err != nil {
		return nil, err
	}
	return got.Item, nil
}

func (s *Promotions) put(ctx context.Context, item dynamo.Item) error {
	_, err := s.db.PutItem(ctx, &dynamodb.PutItemInput{TableName: &s.table, Item: item})
	return err
}

// exchange exchanges attributes of two requests.
func (s *Promotions) exchange(ctx context.Context, one, other string, attributes ...string) error {
	a, err := s.request(ctx, one)
	if err != nil {
		return err
	}
	b, err := s.request(ctx, other)
	if err != nil {
		return err
	}
	for _, name := range attributes {
		a[name], b[name] = b[name], a[name]
	}
	return errors.Join(s.put(ctx, a), s.put(ctx, b))
}

// copyRequest stores a request of the same user once more, under another id.
func (s *Promotions) copyRequest(ctx context.Context, id string) error {
	item, err := s.request(ctx, id)
	if err != nil {
		return err
	}
	other := uuid.Must(uuid.NewV7()).String()
	item["PK"], item["requestId"] = dynamo.String("REQ#"+other), dynamo.String(other)
	return s.put(ctx, item)
}
