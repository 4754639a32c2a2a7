package dynamo

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Item is an item of a DynamoDB table, or only its key.
type Item = map[string]types.AttributeValue

// String is an attribute of type S.
func String(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// Number is an attribute of type N.
func Number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// Bool is an attribute of type BOOL.
func Bool(b bool) types.AttributeValue { return &types.AttributeValueMemberBOOL{Value: b} }

// Binary is an attribute of type B.
func Binary(b []byte) types.AttributeValue { return &types.AttributeValueMemberB{Value: b} }

// Reader reads typed attributes of an item and keeps the first error. An absent attribute reads as
// the zero value: writers leave out attributes that have none.
type Reader struct {
	Item Item
	err  error
}

func (r *Reader) String(name string) string {
	if v, ok := attribute[*types.AttributeValueMemberS](r, name); ok {
		return v.Value
	}
	return ""
}

// Number reads a whole number.
func (r *Reader) Number(name string) int64 {
	v, ok := attribute[*types.AttributeValueMemberN](r, name)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(v.Value, 10, 64)
	if err != nil {
		r.typeError(name)
	}
	return n
}

func (r *Reader) Bool(name string) bool {
	v, ok := attribute[*types.AttributeValueMemberBOOL](r, name)
	return ok && v.Value
}

func (r *Reader) Binary(name string) []byte {
	if v, ok := attribute[*types.AttributeValueMemberB](r, name); ok {
		return v.Value
	}
	return nil
}

// attribute reads an attribute of type A; ok is false when it is absent, or of another type.
func attribute[A types.AttributeValue](r *Reader, name string) (v A, ok bool) {
	stored := r.Item[name]
	if v, ok = stored.(A); !ok && stored != nil {
		r.typeError(name)
	}
	return v, ok
}

func (r *Reader) Err() error { return r.err }

func (r *Reader) typeError(name string) {
	if r.err == nil {
		r.err = fmt.Errorf("attribute %s is not of its type: %T", name, r.Item[name])
	}
}

// Change is the update of an item: an expression with its names and values.
type Change struct {
	Expression string
	Names      map[string]string
	Values     Item
}

// Diff is the change from one state of an item to another: it sets the attributes that differ and
// removes those that only the old state has. Attributes that neither state has, such as those of a
// later release, stay. Key attributes must be equal. Without a difference the expression is empty,
// which DynamoDB refuses.
func Diff(before, after Item) Change {
	c := Change{Names: map[string]string{}, Values: Item{}}
	var set, remove []string
	for i, name := range slices.Sorted(maps.Keys(after)) {
		if old, ok := before[name]; ok && equal(old, after[name]) {
			continue
		}
		n, v := fmt.Sprintf("#n%d", i), fmt.Sprintf(":n%d", i)
		c.Names[n], c.Values[v] = name, after[name]
		set = append(set, n+" = "+v)
	}
	for i, name := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[name]; !ok {
			n := fmt.Sprintf("#r%d", i)
			c.Names[n] = name
			remove = append(remove, n)
		}
	}
	if len(set) > 0 {
		c.Expression = "SET " + strings.Join(set, ", ")
	}
	if len(remove) > 0 {
		c.Expression = strings.TrimSpace(c.Expression + " REMOVE " + strings.Join(remove, ", "))
	}
	return c
}

// equal compares scalars; other types always differ, which only costs a write.
func equal(a, b types.AttributeValue) bool {
	switch a := a.(type) {
	case *types.AttributeValueMemberS:
		b, ok := b.(*types.AttributeValueMemberS)
		return ok && a.Value == b.Value
	case *types.AttributeValueMemberN:
		b, ok := b.(*types.AttributeValueMemberN)
		return ok && a.Value == b.Value
	case *types.AttributeValueMemberBOOL:
		b, ok := b.(*types.AttributeValueMemberBOOL)
		return ok && a.Value == b.Value
	default:
		return false
	}
}
