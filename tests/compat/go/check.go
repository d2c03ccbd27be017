package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azeventhubs/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
)

// Conditions of Service Bus for which the SDK has no names.
const (
	argumentError             = amqp.ErrCond("com.microsoft:argument-error")
	condEntityDisabled        = amqp.ErrCond("com.microsoft:entity-disabled")
	condSessionCannotBeLocked = amqp.ErrCond("com.microsoft:session-cannot-be-locked")
)

func ptr[T any](value T) *T { return &value }

// must returns the value, and panics if there is an error.
func must[T any](value T, err error) T {
	must0(err)
	return value
}

func must0(err error) {
	if err != nil {
		panic(err)
	}
}

func check(isSo bool, what string, arguments ...any) {
	if !isSo {
		panic(fmt.Sprintf(what, arguments...))
	}
}

func same(expected, actual any) {
	check(reflect.DeepEqual(expected, actual), "expected %s, saw %s", described(expected), described(actual))
}

// described shows what pointers point to, unless JSON cannot say it.
func described(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprintf("%#v", value)
	}
	return fmt.Sprintf("%s (%T)", text, value)
}

// refused insists on an error of Service Bus with this code.
func refused(code azservicebus.Code, err error) {
	var refusal *azservicebus.Error
	check(errors.As(err, &refusal) && refusal.Code == code, "expected %s, saw %v", code, err)
}

// hubRefused insists on an error of Event Hubs with this code.
func hubRefused(code azeventhubs.ErrorCode, err error) {
	var refusal *azeventhubs.Error
	check(errors.As(err, &refusal) && refusal.Code == code, "expected %s, saw %v", code, err)
}

// httpRefused insists on an answer of the administration API with this status, and with this part of a sentence.
func httpRefused(status int, text string, err error) {
	var refusal *azcore.ResponseError
	isSo := errors.As(err, &refusal) && refusal.StatusCode == status && strings.Contains(err.Error(), text)
	check(isSo, "expected %d %s with %q, saw %v", status, http.StatusText(status), text, err)
}

// refusedBy insists on an AMQP error with this condition and this part of its description, where the SDK has no code.
func refusedBy(condition amqp.ErrCond, text string, err error) {
	var refusal *amqp.Error
	isSo := errors.As(err, &refusal) && refusal.Condition == condition && strings.Contains(refusal.Description, text)
	check(isSo, "expected %s with %q, saw %v", condition, text, err)
}

// says insists on an error with this text, where the SDK shows neither a code nor a condition that fits.
func says(text string, err error) {
	check(err != nil && strings.Contains(err.Error(), text), "expected an error with %q, saw %v", text, err)
}

// gaveUp insists that the wait of the caller has ended.
func gaveUp(err error) {
	check(errors.Is(err, context.DeadlineExceeded), "expected the end of the wait, saw %v", err)
}

// until waits for something that happens behind the back of the SDK.
func until(what string, isSo func() bool) {
	deadline := time.Now().Add(patience)
	for !isSo() {
		check(time.Now().Before(deadline), "waited in vain for %s", what)
		time.Sleep(10 * time.Millisecond)
	}
}
