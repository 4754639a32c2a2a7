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

// String makes an attribute value of type S.
func String(text string) types.AttributeValue { return &types.AttributeValueMemberS{Value: text} }

// Number makes an attribute value of type N.
func Number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// Bool makes an attribute value of type BOOL.
func Bool(b bool) types.AttributeValue { return &types.AttributeValueMemberBOOL{Value: b} }

// Binary makes an attribute value of type B.
func Binary(b []byte) types.AttributeValue { return &types.AttributeValueMemberB{Value: b} }

// Reader reads typed attributes of an item and keeps the first error for Err. An attribute that is
// absent reads as the zero value, since writers leave out zero values.
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

// Number reads an attribute that is a whole number.
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

// attribute reads an attribute of type A. ok is false if it is absent or of another type.
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

// Change is an update expression of DynamoDB with the names and values that it refers to.
type Change struct {
	Expression string
	Names      map[string]string
	Values     Item
}

// Diff returns the update that turns one state of an item into another: it sets the attributes that
// differ and removes those that only the old state has. Stored attributes that neither state has,
// such as those of a later release, stay. Key attributes must be equal. Without a difference the
// expression is empty, which DynamoDB refuses.
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

// equal compares strings, numbers and booleans. Values of other types count as different, which
// only costs a write.
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
