package promo

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
	"urr.guru/scripts/audit"
	"urr.guru/scripts/internal/tables"
)

// Damages names what Damage can do.
func Damages() []string { return []string{damageOrder, damageWinner, damageDuplicate} }

const (
	damageOrder     = "order"
	damageWinner    = "winner"
	damageDuplicate = "duplicate"
)

// Damage changes the table, bypassing the services, to show that Judge detects it.
func (d *Demo) Damage(ctx context.Context, what string) error {
	event := d.first.event
	if what == damageWinner {
		event = d.lottery.event
	}
	p, err := d.audit.Get(ctx, event)
	if err != nil {
		return err
	}
	slices.SortFunc(p.Requests, func(a, b audit.EventRequest) int { return strings.Compare(a.QueueSeq, b.QueueSeq) })
	won, lost := -1, -1 // the last who won, the first who did not
	for i, r := range p.Requests {
		switch {
		case r.Status == "SUCCEEDED":
			won = i
		case r.Status == "REJECTED" && lost < 0:
			lost = i
		}
	}
	if won < 0 || lost < 0 {
		return errors.New("there is nothing to damage")
	}
	t := d.table()
	switch what {
	case damageOrder, damageWinner: // one who has a place and one who has none change places
		return t.exchange(ctx, p.Requests[won].ID, p.Requests[lost].ID, "status", "resultCode")
	case damageDuplicate: // a winner has another place
		return t.copy(ctx, p.Requests[won].ID)
	default:
		return fmt.Errorf("there is no damage %q", what)
	}
}

// table is the services' table.
type table struct {
	db   *dynamodb.Client
	name string
}

func (d *Demo) table() table {
	w := d.on.Wiring
	return table{name: w.DynamoDBPrefix + "-AsyncEventTable", db: tables.Open(w)}
}

func (t table) request(ctx context.Context, id string) (dynamo.Item, error) {
	got, err := t.db.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &t.name, ConsistentRead: aws.Bool(true), Key: dynamo.Item{"PK": dynamo.String("REQ#" + id), "SK": dynamo.String("META")},
	})
	if err != nil {
		return nil, err
	}
	return got.Item, nil
}

func (t table) put(ctx context.Context, item dynamo.Item) error {
	_, err := t.db.PutItem(ctx, &dynamodb.PutItemInput{TableName: &t.name, Item: item})
	return err
}

// exchange exchanges attributes of two requests.
func (t table) exchange(ctx context.Context, one, other string, attributes ...string) error {
	a, err := t.request(ctx, one)
	if err != nil {
		return err
	}
	b, err := t.request(ctx, other)
	if err != nil {
		return err
	}
	for _, name := range attributes {
		a[name], b[name] = b[name], a[name]
	}
	return errors.Join(t.put(ctx, a), t.put(ctx, b))
}

// copy stores a request of the same user once more, under another id.
func (t table) copy(ctx context.Context, id string) error {
	item, err := t.request(ctx, id)
	if err != nil {
		return err
	}
	other := uuid.Must(uuid.NewV7()).String()
	item["PK"], item["requestId"] = dynamo.String("REQ#"+other), dynamo.String(other)
	return t.put(ctx, item)
}
