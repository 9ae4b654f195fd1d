//! The core, on what the projections give, and the output projection make the layer.

use crate::*;
use synthesizer::attention::Form;

#[test]
fn core_and_output_projection_are_the_layer() {
    for mix in MIXES {
        for (causal, form) in
            [false, true].into_iter().flat_map(|c| [Form::Plain, Form::Composed, Form::Fused].map(|f| (c, f)))
        {
            let mut store = VarStore::new(Device::Cpu);
            store.set_kind(Kind::Double);
            let layer = SelfAttention::new(&store.root(), &config(mix, causal)).unwrap().with_form(form);
            shake(&store);
            let x = random(&[3, 5, D]).set_requires_grad(true);
            let core = layer.core(&x).unwrap().unwrap();
            assert_eq!(core.output_size(), [3, 5, D]);
            let variables = store.variables();
            let output = core.forward().unwrap().linear(&variables["output.weight"], Some(&variables["output.bias"]));
            let error = distance(&output, &layer.forward(&x, None, false).unwrap());
            assert!(error < 1e-12, "{mix}, causal {causal}, {form:?}: {error:e}");
        }
    }
}

/// Each input is a leaf with a gradient of its own; that of the values is checked by differences, the others between forms.
#[test]
fn gradients_of_a_cores_inputs() {
    for mix in MIXES {
        let mut store = VarStore::new(Device::Cpu);
        store.set_kind(Kind::Double);
        let mut layer = SelfAttention::new(&store.root(), &config(mix, true)).unwrap();
        shake(&store);
        let (x, toward) = (random(&[2, 4, D]).set_requires_grad(true), random(&[2, 4, D]));
        let mut gradients = Vec::new();
        for form in [Form::Plain, Form::Fused] {
            layer = layer.with_form(form);
            let core = layer.core(&x).unwrap().unwrap();
            let loss = || (core.forward().unwrap() * &toward).sum(Kind::Double);
            let inputs = core.inputs();
            let leaves: Vec<&Tensor> = inputs.iter().filter(|input| input.requires_grad()).collect();
            // all but R that is never trained
            assert_eq!(leaves.len() + usize::from(mix.starts_with("Rfix")), inputs.len(), "{mix}");
            let found = Tensor::run_backward(&[loss()], &leaves, false, false);
            let values = inputs[0].detach();
            let moved = |by: f64| {
                no_grad(|| {
                    let _ = values.get(1).get(0).get(2).narrow(0, 1, 1).g_add_scalar_(by);
                    loss().double_value(&[])
                })
            };
            let (up, down) = (moved(1e-5), moved(-2e-5));
            moved(1e-5);
            let slope = found[0].double_value(&[1, 0, 2, 1]);
            assert!(((up - down) / 2e-5 - slope).abs() < 1e-8, "{mix}, {form:?}: {slope}");
            gradients.push(found);
        }
        for (index, (plain, fused)) in gradients[0].iter().zip(&gradients[1]).enumerate() {
            let error = distance(plain, fused);
            assert!(error < 1e-11, "{mix}, input {index} {:?}: {error:e}", plain.size());
        }
    }
}
